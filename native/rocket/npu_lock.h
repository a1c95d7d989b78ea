// Lets one job at a time run on an NPU, of all processes that use this lock.
//
// rocket starts jobs on whichever core is free and does not say which. Where cores share one CBUF,
// a job uses the first core's banks wherever it runs: two jobs at once spoil each other (measured
// by others: nearly all results, across processes, too). The lock is flock's, on the device node.
// The kernel opens it when a process dies, whose job may run on until the driver's limit.
#pragma once

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "host/drm_file.h"

namespace rk3588 {

class NpuLock {
 public:
  // Returns the process's lock of the node behind an open descriptor.
  static std::shared_ptr<NpuLock> of(int descriptor) {
    using Key = std::tuple<pid_t, dev_t, ino_t>;
    struct Known {
      std::mutex mutex;
      std::map<Key, std::weak_ptr<NpuLock>> locks;
    };
    // Never destroyed: files are closed at exit.
    static Known* known = std::make_unique<Known>().release();
    struct stat status{};
    fstat(descriptor, &status);
    const std::lock_guard<std::mutex> lock(known->mutex);
    std::weak_ptr<NpuLock>& place = known->locks[{getpid(), status.st_dev, status.st_ino}];
    std::shared_ptr<NpuLock> found = place.lock();
    if (found == nullptr) {
      found = std::make_shared<NpuLock>();
      place = found;
    }
    return found;
  }

  // Waits until `deadline_ns` (monotonic); returns false if it passed. `descriptor` belongs to the
  // file that takes the job; it stays open until unlock().
  bool lock_until(int descriptor, int64_t deadline_ns) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_until(lock, monotonic_time(deadline_ns), [this] { return !is_locked_; }))
      return false;
    is_locked_ = true;
    lock.unlock();
    while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const int64_t now = monotonic_ns();
      if (now >= deadline_ns) {
        const std::lock_guard<std::mutex> again(mutex_);
        is_locked_ = false;
        changed_.notify_all();
        return false;
      }
      usleep(static_cast<useconds_t>(std::min(kPollNs, deadline_ns - now) / 1000 + 1));
    }
    return true;
  }
  // May be called from any thread.
  void unlock(int descriptor) {
    static_cast<void>(flock(descriptor, LOCK_UN));
    const std::lock_guard<std::mutex> lock(mutex_);
    is_locked_ = false;
    changed_.notify_all();
  }

 private:
  // flock has no time limit of its own: how often it is asked.
  static constexpr int64_t kPollNs = 200'000;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_locked_ = false;
};

}  // namespace rk3588
