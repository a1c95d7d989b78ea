#include "rocket/rocket_job.h"

#include <cerrno>

namespace rk3588 {
namespace {

bool ends_with_dpu(const RocketTask& task) {
  return (task.verified.enable_mask & sim::kEnableDpu) != 0;
}

}  // namespace

RocketJob::RocketJob(std::shared_ptr<RocketFile> file, const std::vector<RocketTask>& tasks,
                     const std::vector<RocketBuffer*>& inputs,
                     const std::vector<RocketBuffer*>& outputs)
    : file_(std::move(file)) {
  if (outputs.empty()) throw DeviceError(name() + ": a submit has no outputs");
  for (RocketBuffer* buffer : inputs) in_.push_back(buffer->handle());
  for (RocketBuffer* buffer : outputs) out_.push_back(buffer->handle());
  out_.push_back(file_->mark());  // the last one: RocketFile says why
  output_ = outputs.back();
  buffers_ = inputs;
  buffers_.insert(buffers_.end(), outputs.begin(), outputs.end());
  for (const RocketTask& task : tasks) {
    tasks_.push_back({static_cast<uint32_t>(task.task.regcmd), task.task.regcmd_count});
  }
  job_.tasks = reinterpret_cast<uintptr_t>(tasks_.data());
  job_.task_count = static_cast<uint32_t>(tasks_.size());
  job_.task_struct_size = sizeof(rocket::Task);
  job_.in_bo_handles = reinterpret_cast<uintptr_t>(in_.data());
  job_.in_bo_handle_count = static_cast<uint32_t>(in_.size());
  job_.out_bo_handles = reinterpret_cast<uintptr_t>(out_.data());
  job_.out_bo_handle_count = static_cast<uint32_t>(out_.size());
  choose_flags(tasks);
  submit_.jobs = reinterpret_cast<uintptr_t>(&job_);
  submit_.job_count = 1;
  submit_.job_struct_size = file_->features.version.at_least(1, 1)
                                ? static_cast<uint32_t>(sizeof(rocket::Job))
                                : rocket::kJobBytes;
}

void RocketJob::choose_flags(const std::vector<RocketTask>& tasks) {
  bool is_chain = tasks.size() > 1 && tasks.size() <= rocket::kMaxChainTasks;
  size_t ppu = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (!ends_with_dpu(tasks[i])) ++ppu;
    if (i + 1 < tasks.size() && !tasks[i].verified.links_to_next) is_chain = false;
  }
  const bool all_ppu = ppu == tasks.size();
  // The kernel listens to one kind of interrupt per job: a task of the other kind would take the
  // kernel's time-out and a reset of the core. In a chain only the last task counts.
  const bool batched = is_chain && file_->features.batched;
  if (ppu != 0 && !(batched && ends_with_dpu(tasks.back())) &&
      !(all_ppu && file_->features.ppu_done)) {
    throw DeviceError(name() + ": driver " + file_->features.version.text() +
                      " cannot finish pooling tasks of this program (it waits for the DPU's "
                      "interrupt); leave them to the CPU with option deny_ops");
  }
  if (!batched) {
    // Whether registers outlive a kick is not known.
    for (const RocketTask& task : tasks) {
      if (!task.verified.access.inherits) continue;
      const std::string& layer = task.task.layer;
      throw StreamError(
          name() + ": refused before it reached the NPU: " + (layer.empty() ? "a task" : layer) +
          " takes registers from tasks before it, but driver " + file_->features.version.text() +
          " starts every task of this program by itself; the simulator runs it");
    }
  }
  if (batched) job_.flags |= rocket::kJobBatched;
  if (all_ppu) job_.flags |= rocket::kJobPpuDone;
}

RocketJob::~RocketJob() {
  if (!may_run_ || !file_->file.is_mine()) return;
  if (output_->take_for_host(monotonic_ns() + kRocketCloseWaitNs) == ETIMEDOUT) {
    abandon();
  } else {
    note_done();
  }
}

void RocketJob::abandon() {
  if (!is_abandoned_) file_->abandon(output_->handle());
  is_abandoned_ = true;
}

void RocketJob::note_done() {
  may_run_ = false;
  const bool is_noted = is_abandoned_ && !file_->take_up(output_->handle());
  is_abandoned_ = false;
  if (!is_noted) file_->note_done();
}

void RocketJob::submit(uint32_t timeout_ms) {
  for (RocketBuffer* buffer : buffers_) buffer->give_back_if_held();
  file_->file.require_mine("SUBMIT");
  file_->lock_npu(timeout_ms);
  may_run_ = true;
  file_->note_submitted();
  const int number =
      file_->file.try_request(rocket::kSubmit, &submit_, monotonic_ns() + timeout_ms * kNsPerMs);
  if (number == 0) return;
  // Refused, unless it was interrupted until the deadline.
  if (number == EINTR || number == EAGAIN) {
    abandon();
  } else {
    note_done();
  }
  file_->file.fail("SUBMIT", number);
}

void RocketJob::wait(uint32_t timeout_ms) {
  const int number = output_->take_for_host(monotonic_ns() + timeout_ms * kNsPerMs);
  if (number == 0) {
    note_done();
    return;
  }
  abandon();
  if (number != ETIMEDOUT) file_->file.fail("PREP_BO", number);
  throw DeviceError(name() + ": no result after " + std::to_string(timeout_ms) +
                    " ms (option timeout_ms): the NPU hangs or is busy with other programs");
}

void RocketJob::wait_for_earlier(uint32_t timeout_ms) {
  if (!may_run_) return;
  output_->hold(monotonic_ns() + timeout_ms * kNsPerMs,
                "waiting for an earlier run that timed out");
  note_done();
}

}  // namespace rk3588
