// Lets one job at a time run on an NPU, of all processes that use this lock.
//
// rocket starts jobs on whichever core is free and does not say which. Where cores share one CBUF,
// a job uses the first core's banks wherever it runs: two jobs at once spoil each other (measured
// by others: nearly all results, across processes, too). The lock is flock's, on the device node.
// The kernel opens it when a process dies, whose job may run on until the driver's limit.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rk3588 {

class NpuLock {
 public:
  // Returns the process's lock of the node behind an open descriptor.
  static std::shared_ptr<NpuLock> of(int descriptor);

  // Waits until `deadline_ns` (monotonic); returns false if it passed. `descriptor` belongs to the
  // file that takes the job; it stays open until unlock().
  bool lock_until(int descriptor, int64_t deadline_ns);
  // May be called from any thread.
  void unlock(int descriptor);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_locked_ = false;
};

}  // namespace rk3588
