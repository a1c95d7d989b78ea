// Which jobs are in the vendor's driver at a time, and on which cores.
//
// When a job passes its time-out, drivers 0.9.2 to 0.9.8 reset all cores and take jobs that are not
// yet started out of core 0's queue only: one that waits for core 1 or 2 is freed while it is
// queued, and the kernel crashes. So a core has at most one job in the driver, the core is chosen
// here, and nothing is submitted between the time-out of a job and its return. After a reset the
// IOMMU may not be attached before the NPU was idle long enough to be powered off.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

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
  int acquire(const RknpuCoreChoice& choice, uint32_t timeout_ms);
  // `number`: errno of the job's SUBMIT, 0 for success.
  Verdict release(int core, int number);
  // Returns when the rest after a reset is over; at once where there was none.
  void finish_rest();

 private:
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
  uint32_t eligible(const RknpuCoreChoice& choice) const;
  bool is_overdue(int64_t now) const;
  bool must_rest(int64_t now);
  int choose(const Waiter& waiter, int64_t now);
  void leave(const Waiter& waiter);

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
int64_t rknpu_rest_ns();

}  // namespace rk3588
