// How far a run came that did not end: marks where each task writes first.
//
// They cost a synchronisation of all memory, so they are set for the first run and where results
// are verified.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/device.h"
#include "host/run_mark.h"

namespace rk3588 {

class RunProgress {
 public:
  // `submission`: of `submit`, with the first address that each task writes, in order.
  RunProgress(const Submission& submission, const Submit& submit);
  // Called before the buffers are given to the device. Marks every task's target, or none.
  void mark(bool tasks);
  // These need memory that was synchronised for the host. Where the run stopped, as far as the
  // marks tell, for the end of a message.
  std::string text() const;
  // The task that did not finish, where the marks tell.
  std::optional<size_t> stopped_at() const;

 private:
  // The first task whose mark is still there; as many as there are: none.
  size_t first_marked() const;

  std::vector<uint8_t*> targets_;  // by task; nullptr: a later task writes there, too
  std::vector<std::string> layers_;
  RunMark mark_;
  bool tasks_marked_ = false;
};

}  // namespace rk3588
