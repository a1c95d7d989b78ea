// One job at a time on an NPU, of all processes that keep to it.
//
// rocket starts jobs on whichever core is free and does not say which. Where cores share one CBUF a
// job uses the first core's banks wherever it runs, so two at the same time spoil each other
// (measured by others: nearly all results, also across processes). The lock that processes share is
// flock's, on the node; the kernel opens it again when a process dies, whose job may run on until
// the driver's limit.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rk3588 {

class RocketTurn {
 public:
  // The process's, of the node behind an open descriptor.
  static std::shared_ptr<RocketTurn> of(int descriptor);

  // Waits until `deadline_ns` (monotonic); false: it passed. `descriptor`: of the file that the job
  // is handed to, which stays open until give_back().
  bool take(int descriptor, int64_t deadline_ns);
  // From any thread.
  void give_back(int descriptor);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_taken_ = false;
};

}  // namespace rk3588
