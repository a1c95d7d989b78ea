#include "rknpu_kicks.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace rk3588 {
namespace {

// What the vendor's runtime waits for one submit.
constexpr uint32_t kDefaultTimeoutMs = 6000;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr uint32_t kEnableDpu = 0x08;

}  // namespace

RknpuKicks::RknpuKicks(std::shared_ptr<RknpuFile> file, const Submit& submit,
                       const VerifiedJobs& verified)
    : file_(std::move(file)),
      timeout_ms_(submit.timeout_ms != 0 ? submit.timeout_ms : kDefaultTimeoutMs) {
  for (const auto& job : verified) {
    for (const VerifiedTask& task : job) {
      tasks_.push_back(task);
      tasks_.back().access = {};  // large, and of no use here
    }
  }
  for (const VerifiedTask& task : tasks_) targets_.push_back(task.target);
  write_table(submit);
}

void RknpuKicks::write_table(const Submit& submit) {
  table_ = std::make_unique<RknpuBuffer>(file_, tasks_.size() * sizeof(rknpu::Task),
                                         rknpu::kTaskTableFlags);
  uint8_t* place = table_->bytes().data();
  uint32_t index = 0;
  for (const JobRef& job : submit.jobs) {
    for (const TaskRef& source : job.tasks) {
      rknpu::Task task;
      task.op_idx = index;
      task.enable_mask = tasks_[index].enable_mask;
      task.int_mask = (task.enable_mask & kEnableDpu) != 0 ? rknpu::kIntDpu : rknpu::kIntPpu;
      task.int_clear = rknpu::kIntClearAll;
      task.regcfg_amount = source.regcmd_count - rknpu::kTailWords;
      task.regcmd_addr = source.regcmd;
      std::memcpy(place + size_t{index} * sizeof(task), &task, sizeof(task));
      ++index;
    }
  }
  table_->synchronise(rknpu::kSyncToDevice);
}

std::vector<RknpuKick> RknpuKicks::plan(uint32_t first, uint32_t count) const {
  constexpr uint32_t kLimit = rknpu::kMaxChainTasks;
  std::vector<RknpuKick> kicks;
  const uint32_t total = first + count;
  while (first < total) {
    uint32_t end = first + 1;
    uint32_t cut = end < total && tasks_[end].reuses_cbuf ? first : end;  // where it may end
    while (end < total && tasks_[end - 1].links_to_next && end - first < kLimit) {
      ++end;
      if (end == total || !tasks_[end].reuses_cbuf) cut = end;
    }
    const bool is_cut = end < total && tasks_[end - 1].links_to_next;
    if (is_cut) end = cut;
    if (end <= first || tasks_[first].reuses_cbuf) {
      throw StreamError("refused before it reached the NPU: task " + std::to_string(first) +
                        " reuses weights or data of a task that is not in its chain of at most " +
                        std::to_string(kLimit) + "; compile the model again");
    }
    kicks.push_back({first, end - first});
    first = end;
  }
  return kicks;
}

rknpu::Submit RknpuKicks::make_submit(const RknpuKick& kick, int core) const {
  rknpu::Submit submit;
  submit.flags = rknpu::kJobPc | rknpu::kJobPingPong;
  submit.timeout = timeout_ms_;
  submit.task_start = kick.first;
  submit.task_number = kick.count;
  submit.task_obj_addr = table_->object();
  submit.core_mask = core < 0 ? rknpu::kCoreAuto : 1u << core;
  submit.fence_fd = -1;
  // One core reads the slot of its own number; which one it is in automatic mode is up to the
  // driver.
  for (int i = 0; i < 3; ++i) {
    if (core < 0 || core == i) submit.subcore_task[i] = {kick.first, kick.count};
  }
  return submit;
}

int64_t RknpuKicks::run(const rknpu::Submit& prepared) const {
  rknpu::Submit submit = prepared;  // the driver writes into it
  const int64_t start = monotonic_ns();
  file_->file.require_mine("SUBMIT");
  const int number =
      file_->file.try_request(rknpu::kSubmit, &submit, start + timeout_ms_ * kNsPerMs);
  if (number == 0) {
    // Drivers that do not measure leave the field as it was.
    const int64_t hardware = submit.hw_elapse_time;
    return hardware > 0 && hardware <= monotonic_ns() - start ? hardware : 0;
  }
  if (number != ETIMEDOUT) file_->file.fail("SUBMIT", number);
  // Only a hint: the counter of a core that hangs is not reliable.
  const uint32_t done = std::min(submit.task_counter, prepared.task_number);
  throw DeviceError("rknpu " + file_->file.path() + ": no result after " +
                    std::to_string(timeout_ms_) +
                    " ms (option timeout_ms): the NPU hangs or is busy; the driver counted " +
                    std::to_string(prepared.task_start + done) + " of " +
                    std::to_string(tasks_.size()) + " tasks");
}

}  // namespace rk3588
