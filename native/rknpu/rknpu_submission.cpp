#include "rknpu/rknpu_submission.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <string>

#include "host/run_log.h"
#include "host/run_mark.h"
#include "rknpu/rknpu_kicks.h"
#include "sim/thread_pool.h"

namespace rk3588 {
namespace {

constexpr size_t kCacheLineBytes = 64;

// An atom that a job must overwrite.
struct Mark {
  RknpuBuffer* buffer;
  size_t offset;
  std::string layer;

  uint8_t* place() const { return buffer->bytes().data() + offset; }
  // Its line only. Buffers are page-aligned.
  void synchronise(uint32_t direction) const {
    buffer->synchronise(direction, offset / kCacheLineBytes * kCacheLineBytes, kCacheLineBytes);
  }
};

struct Epoch {
  std::vector<std::vector<RknpuKick>> workers;
  std::vector<Mark> marks;
};

class RknpuSubmission : public Submission {
 public:
  RknpuSubmission(std::shared_ptr<RknpuFile> file, std::vector<RknpuCoreChoice> choices,
                  const Submit& submit, const VerifiedJobs& verified, const CorePlan& plan)
      : kicks_(std::move(file), submit, verified),
        choices_(std::move(choices)),
        proof_(plan.only_mark()),
        pool_(std::make_unique<sim::ThreadPool>(static_cast<unsigned>(plan.workers))),
        errors_(plan.workers),
        interruptions_(plan.workers),
        hardware_ns_(plan.workers),
        work_([this](size_t worker) { run_worker(worker); }) {
    std::vector<uint32_t> first_task;
    uint32_t count = 0;
    for (const JobRef& job : submit.jobs) {
      first_task.push_back(count);
      count += static_cast<uint32_t>(job.tasks.size());
    }
    for (const PlannedEpoch& planned : plan.epochs) {
      Epoch& epoch = epochs_.emplace_back();
      epoch.workers.resize(plan.workers);
      for (size_t worker = 0; worker < plan.workers; ++worker) {
        for (const PlannedJob& job : planned.workers[worker]) {
          const uint32_t base = first_task[job.job];
          const uint32_t first = base + static_cast<uint32_t>(job.first);
          for (const RknpuKick& kick : kicks_.plan(first, static_cast<uint32_t>(job.count))) {
            // Registers of a core that ran something else in between are no one's.
            if (kick.count != count) verify_alone(submit, job.job, kick.first - base, kick.count);
            epoch.workers[worker].push_back(kick);
          }
          if (job.mark == kNoMark || job.mark == proof_) continue;
          const TaskRef& last = submit.jobs[job.job].tasks[job.first + job.count - 1];
          epoch.marks.push_back(mark_at(submit, job.mark, last.layer));
        }
      }
    }
  }

  ~RknpuSubmission() override {
    // A forked child has no worker threads: waiting for them would never end.
    if (!kicks_.file()->file.is_mine()) static_cast<void>(pool_.release());
  }

  Span<const uint64_t> task_targets() const override { return kicks_.targets(); }
  uint64_t proof() const override { return proof_; }

  void begin() override { kicks_.file()->file.require_mine("SUBMIT"); }

  void run() override {
    int64_t hardware_ns = 0;
    bool is_told = true;
    for (const Epoch& epoch : epochs_) {
      put_marks(epoch);
      epoch_ = &epoch;
      std::fill(hardware_ns_.begin(), hardware_ns_.end(), int64_t{-1});
      pool_->run(epoch.workers.size(), work_);
      throw_errors();
      check_marks(epoch);
      for (const int64_t ns : hardware_ns_) is_told = is_told && ns != 0;
      hardware_ns += *std::max_element(hardware_ns_.begin(), hardware_ns_.end());
    }
    if (is_told) note_waited(hardware_ns);
  }

 private:
  static Mark mark_at(const Submit& submit, uint64_t address, const std::string& layer) {
    const auto at = find_address(submit.outputs, address);
    if (!at) throw StreamError("a job writes outside the outputs of its submit");
    return {static_cast<RknpuBuffer*>(submit.outputs[at->index]), at->offset, layer};
  }

  // Nothing of the line may be lost: what others wrote there comes first.
  void put_marks(const Epoch& epoch) {
    mark_.renew();
    for (const Mark& mark : epoch.marks) {
      mark.synchronise(rknpu::kSyncFromDevice);
      mark_.put(mark.place());
      mark.synchronise(rknpu::kSyncToDevice);
    }
  }

  void check_marks(const Epoch& epoch) const {
    for (const Mark& mark : epoch.marks) {
      mark.synchronise(rknpu::kSyncFromDevice);
      if (!mark_.is_at(mark.place())) continue;
      throw DeviceError("rknpu " + kicks_.file()->file.path() + ": " + unwritten(mark.layer));
    }
  }

  // A worker's own error says more than that others were interrupted by it.
  void throw_errors() {
    const std::exception_ptr error = take_first(&errors_);
    const std::exception_ptr interruption = take_first(&interruptions_);
    if (error != nullptr) std::rethrow_exception(error);
    if (interruption != nullptr) std::rethrow_exception(interruption);
  }

  // The first one, if any; there are none afterwards.
  static std::exception_ptr take_first(std::vector<std::exception_ptr>* errors) {
    std::exception_ptr first;
    for (std::exception_ptr& error : *errors) {
      if (first == nullptr) first = error;
      error = nullptr;
    }
    return first;
  }

  void run_worker(size_t worker) {
    int64_t total = epoch_->workers[worker].empty() ? -1 : 0;
    try {
      for (const RknpuKick& kick : epoch_->workers[worker]) {
        const int64_t ns = kicks_.run(kick, choices_[worker]);
        if (ns == 0) total = INT64_MIN;
        if (total >= 0) total += ns;
      }
    } catch (const InterruptedRun&) {
      interruptions_[worker] = std::current_exception();
    } catch (...) {
      errors_[worker] = std::current_exception();
    }
    hardware_ns_[worker] = total == INT64_MIN ? 0 : total;
  }

  RknpuKicks kicks_;
  std::vector<RknpuCoreChoice> choices_;  // by worker
  uint64_t proof_;
  std::unique_ptr<sim::ThreadPool> pool_;
  std::vector<Epoch> epochs_;
  const Epoch* epoch_ = nullptr;                   // that the workers are in
  std::vector<std::exception_ptr> errors_;         // by worker
  std::vector<std::exception_ptr> interruptions_;  // by worker
  std::vector<int64_t> hardware_ns_;  // by worker; 0: not told, -1: it had nothing to do
  std::function<void(size_t)> work_;
  RunMark mark_;
};

}  // namespace

std::unique_ptr<Submission> make_rknpu_submission(std::shared_ptr<RknpuFile> file,
                                                  std::vector<RknpuCoreChoice> choices,
                                                  const Submit& submit,
                                                  const VerifiedJobs& verified,
                                                  const CorePlan& plan) {
  return std::make_unique<RknpuSubmission>(std::move(file), std::move(choices), submit, verified,
                                           plan);
}

}  // namespace rk3588
