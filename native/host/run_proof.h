// Proof that the NPU ran: marks in memory that it must overwrite.
//
// Kernel drivers drop or reset jobs without a word, and the outputs would then hold the previous
// result. Before each run an atom that only the last task writes gets a pattern; if it is still
// there, the run was cut short. Marks at the place where each task writes first tell how far it
// came; they cost a synchronisation of all memory, so they are set for the first run and when
// results are verified.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/device.h"
#include "host/run_mark.h"

namespace rk3588 {

class RunProof {
 public:
  // `submission`: of `submit`; its proof, and the first address that each task writes, in order.
  RunProof(const Submission& submission, const Submit& submit);
  // Before the buffers are given to the device. With `tasks`, marks every task's target, too.
  void mark(bool tasks);
  // The buffer with the mark that every run must overwrite; nullptr: the submission proves itself.
  Buffer* buffer() const { return buffer_; }
  // What the run did not do, for a message; empty if it was finished. The buffer must have been
  // synchronised for the host.
  std::string missing() const;
  // Where the run stopped, as far as the marks tell, for the end of a message. The memory must have
  // been synchronised for the host.
  std::string progress() const;
  // The task that did not finish, where the marks tell. The same condition.
  std::optional<size_t> stopped_at() const;

 private:
  // The first task whose mark is still there; as many as there are: none.
  size_t first_marked() const;

  Buffer* buffer_ = nullptr;
  uint8_t* last_ = nullptr;        // marked atom of the last task
  std::vector<uint8_t*> targets_;  // by task; nullptr: a later task writes there, too
  std::vector<std::string> layers_;
  RunMark mark_;
  bool tasks_marked_ = false;
};

}  // namespace rk3588
