#include "rknpu/rknpu_cores.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>

#include "host/drm_file.h"

namespace rk3588 {
namespace {

// A job that is about to pass its time-out counts as past it: a submit takes a moment to start.
constexpr int64_t kMarginNs = 10 * kNsPerMs;
// How many time-outs a job waits for its core, as one that is queued waits in the driver.
constexpr int64_t kWaitTimes = 3;

// The driver's own delay before it powers the NPU off, where it can be read (root), and what it is
// unless somebody changed it.
constexpr const char* kDelayFiles[] = {"/sys/kernel/debug/rknpu/delayms", "/proc/rknpu/delayms"};
constexpr int64_t kDefaultDelayMs = 3000;
constexpr int64_t kMaxDelayMs = 60'000;
// The IOMMU follows the NPU a moment later.
constexpr int64_t kSettleNs = 200 * kNsPerMs;

int lowest(uint32_t cores) {
  for (int core = 0; core < static_cast<int>(kMaxRknpuCores); ++core) {
    if ((cores >> core & 1) != 0) return core;
  }
  return -1;
}

}  // namespace

int64_t rknpu_rest_ns() {
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

uint32_t RknpuCores::eligible(const RknpuCoreChoice& choice) const {
  const uint32_t wanted = choice.wanted & ~absent_;
  return wanted != 0 ? wanted : choice.instead & ~absent_;
}

bool RknpuCores::is_overdue(int64_t now) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [now](const Job& job) {
    return job.is_running && now >= job.deadline_ns - kMarginNs;
  });
}

// The driver's work that takes the power away can be late on a busy machine.
bool RknpuCores::must_rest(int64_t now) {
  if (!is_resting_) return false;
  if (now < rest_limit_ns_ && is_powered_()) {
    rest_until_ns_ = std::max(rest_until_ns_, now + kSettleNs);
  }
  return now < rest_until_ns_;
}

// Earlier waiters have their pick of the free cores.
int RknpuCores::choose(const Waiter& waiter, int64_t now) {
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

void RknpuCores::leave(const Waiter& waiter) {
  Waiter** place = &first_;
  while (*place != &waiter) place = &(*place)->next;
  *place = waiter.next;
}

int RknpuCores::acquire(const RknpuCoreChoice& choice, uint32_t timeout_ms) {
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

RknpuCores::Verdict RknpuCores::release(int core, int number) {
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

void RknpuCores::finish_rest() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (must_rest(monotonic_ns())) {
    changed_.wait_until(lock, monotonic_time(rest_until_ns_));
  }
}

}  // namespace rk3588
