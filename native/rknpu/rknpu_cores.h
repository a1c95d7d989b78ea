// Which jobs are in the vendor's driver at a time, and on which cores.
//
// When a job passes its time-out, drivers 0.9.2 to 0.9.8 reset all cores and take jobs that are not
// yet started out of core 0's queue only: one that waits for core 1 or 2 is freed while it is
// queued, and the kernel crashes. So a core has at most one job in the driver, the core is chosen
// here, and nothing is submitted between the time-out of a job and its return. After a reset the
// IOMMU may not be attached before the NPU was idle long enough to be powered off.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <mutex>
#include <utility>

#include "host/drm_file.h"

namespace rk3588 {

// Cores of a stream, a bit each.
struct RknpuCoreChoice {
  uint32_t wanted = 0;
  uint32_t instead = 0;  // where the part has none of the wanted ones
};

// The driver's interface names no more.
inline constexpr size_t kMaxRknpuCores = 3;

// The cores of one device, for all streams of the process. Thread-safe; allocates nothing.
class RknpuCores {
 public:
  // Answers of acquire() that are no core.
  static constexpr int kBusy = -1;    // none was free in time
  static constexpr int kAbsent = -2;  // the part has none of the choice

  // The meaning of a job's end.
  enum class Verdict {
    kDone,
    kReset,   // it ended because another job was reset: EINVAL
    kNoCore,  // the part does not have the core: EINVAL on one that never ran a job
    kFailed,  // its own error
  };

  // `rest_ns`: how long no job may run after a reset. `is_powered`: whether the system says that
  // the NPU has power; false where it does not tell. A rest ends with it off, or after twice that
  // time.
  RknpuCores(int64_t rest_ns, std::function<bool()> is_powered)
      : rest_ns_(rest_ns), is_powered_(std::move(is_powered)) {}
  RknpuCores(const RknpuCores&) = delete;
  RknpuCores& operator=(const RknpuCores&) = delete;

  // Waits for a core, first come first served, while jobs are past their time-out and after resets.
  // The caller submits one job with `timeout_ms` and calls release().
  int acquire(const RknpuCoreChoice& choice, uint32_t timeout_ms) {
    const int64_t timeout_ns = timeout_ms * kNsPerMs;
    const int64_t limit = monotonic_ns() + kWaitTimes * timeout_ns + 2 * rest_ns_;
    Waiter self{choice};
    std::unique_lock<std::mutex> lock(mutex_);
    Waiter** place = &first_;
    while (*place != nullptr) place = &(*place)->next;
    *place = &self;
    for (;;) {
      const int64_t now = monotonic_ns();
      const int core = choose(self, now);
      if (core >= 0) {
        leave(self);
        is_resting_ = false;
        jobs_[static_cast<size_t>(core)] = {true, now, now + timeout_ns};
        return core;
      }
      if (core == kAbsent || now >= limit) {
        leave(self);
        changed_.notify_all();
        return core == kAbsent ? kAbsent : kBusy;
      }
      const bool rests = is_resting_ && rest_until_ns_ > now;
      changed_.wait_until(lock, monotonic_time(rests ? std::min(limit, rest_until_ns_) : limit));
    }
  }
  // `number`: errno of the job's SUBMIT, 0 for success.
  Verdict release(int core, int number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t now = monotonic_ns();
    const uint32_t bit = 1u << core;
    Job& job = jobs_[static_cast<size_t>(core)];
    job.is_running = false;
    Verdict verdict = number == 0 ? Verdict::kDone : Verdict::kFailed;
    if (number == 0) proven_ |= bit;
    if (number == ETIMEDOUT) {
      reset_ns_ = now;
      is_resting_ = true;
    }
    if (number == EINVAL) {
      // The job that passed its time-out returns after those that its reset ended. One of another
      // program is not seen; a core that ran jobs before refuses none that was checked.
      if (reset_ns_ >= job.start_ns || is_overdue(now) || (proven_ & bit) != 0) {
        verdict = Verdict::kReset;
        is_resting_ = true;
      } else if (core != 0) {
        verdict = Verdict::kNoCore;
        absent_ |= bit;
      }
    }
    if (is_resting_) {
      rest_until_ns_ = now + rest_ns_;
      rest_limit_ns_ = now + 2 * rest_ns_;
    }
    changed_.notify_all();
    return verdict;
  }
  // Returns when the rest after a reset is over; at once where there was none.
  void finish_rest() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (must_rest(monotonic_ns())) {
      changed_.wait_until(lock, monotonic_time(rest_until_ns_));
    }
  }

 private:
  // A job that is about to pass its time-out counts as past it: a submit takes a moment to start.
  static constexpr int64_t kMarginNs = 10 * kNsPerMs;
  // How many time-outs a job waits for its core, as one that is queued waits in the driver.
  static constexpr int64_t kWaitTimes = 3;
  // The IOMMU follows the NPU a moment later.
  static constexpr int64_t kSettleNs = 200 * kNsPerMs;

  static int lowest(uint32_t cores) {
    for (int core = 0; core < static_cast<int>(kMaxRknpuCores); ++core) {
      if ((cores >> core & 1) != 0) return core;
    }
    return -1;
  }

  struct Job {
    bool is_running = false;
    int64_t start_ns = 0;
    int64_t deadline_ns = 0;
  };
  struct Waiter {
    RknpuCoreChoice choice;
    Waiter* next = nullptr;
  };
  static constexpr int kWait = -3;

  // All need the lock.
  uint32_t eligible(const RknpuCoreChoice& choice) const {
    const uint32_t wanted = choice.wanted & ~absent_;
    return wanted != 0 ? wanted : choice.instead & ~absent_;
  }
  bool is_overdue(int64_t now) const {
    return std::any_of(jobs_.begin(), jobs_.end(), [now](const Job& job) {
      return job.is_running && now >= job.deadline_ns - kMarginNs;
    });
  }
  // The driver's work that takes the power away can be late on a busy machine.
  bool must_rest(int64_t now) {
    if (!is_resting_) return false;
    if (now < rest_limit_ns_ && is_powered_()) {
      rest_until_ns_ = std::max(rest_until_ns_, now + kSettleNs);
    }
    return now < rest_until_ns_;
  }
  // Earlier waiters have their pick of the free cores.
  int choose(const Waiter& waiter, int64_t now) {
    if (eligible(waiter.choice) == 0) return kAbsent;
    if (must_rest(now) || is_overdue(now)) return kWait;
    uint32_t free = 0;
    for (size_t core = 0; core < kMaxRknpuCores; ++core) {
      if (!jobs_[core].is_running) free |= 1u << core;
    }
    for (const Waiter* each = first_; each != nullptr; each = each->next) {
      const int core = lowest(eligible(each->choice) & free);
      if (each == &waiter) return core < 0 ? kWait : core;
      if (core >= 0) free &= ~(1u << core);
    }
    return kWait;
  }
  void leave(const Waiter& waiter) {
    Waiter** place = &first_;
    while (*place != &waiter) place = &(*place)->next;
    *place = waiter.next;
  }

  const int64_t rest_ns_;
  const std::function<bool()> is_powered_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Job, kMaxRknpuCores> jobs_;
  Waiter* first_ = nullptr;  // in the order of arrival, on the stacks of their threads
  uint32_t proven_ = 0;      // cores that have run a job
  uint32_t absent_ = 0;      // cores that the driver refused
  bool is_resting_ = false;
  int64_t rest_until_ns_ = 0;
  int64_t rest_limit_ns_ = 0;
  int64_t reset_ns_ = INT64_MIN;  // the last one that is known
};

// How long the driver keeps the NPU powered after the last request, and some more: after a reset as
// long as that without a job.
inline int64_t rknpu_rest_ns() {
  // The driver's own delay before it powers the NPU off, where it can be read (root), and what it
  // is unless somebody changed it.
  constexpr const char* kDelayFiles[] = {"/sys/kernel/debug/rknpu/delayms", "/proc/rknpu/delayms"};
  constexpr int64_t kDefaultDelayMs = 3000;
  constexpr int64_t kMaxDelayMs = 60'000;
  int64_t delay_ms = kDefaultDelayMs;
  for (const char* path : kDelayFiles) {
    std::ifstream file(path);
    int64_t value = 0;
    if (file >> value && value >= 0) {
      delay_ms = std::min(value, kMaxDelayMs);
      break;
    }
  }
  return (delay_ms + delay_ms / 4) * kNsPerMs;
}

}  // namespace rk3588
