#include "rknpu/rknpu_kicks.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "chip/registers_gen.h"
#include "host/core_banks.h"

namespace rk3588 {
namespace {

// The vendor's runtime waits so long for one submit.
constexpr uint32_t kDefaultTimeoutMs = 6000;
constexpr uint64_t kSegmentAlignment = 64;

// With the word that is fetched behind an odd number.
uint64_t segment_bytes(const TaskRef& task) {
  const uint64_t bytes = uint64_t{task.regcmd_count} * sizeof(uint64_t);
  return (bytes + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
}

// Copies commands of a verified submit, whose segments lie in its inputs. Zeros follow them.
void copy_commands(const Submit& submit, const TaskRef& task, std::vector<uint64_t>* words) {
  const AddressPlace at = find_address(submit.inputs, task.regcmd).value();
  std::memcpy(words->data(), submit.inputs[at.index]->bytes().data() + at.offset,
              size_t{task.regcmd_count} * sizeof(uint64_t));
}

// The only command of a verified task that names the next one.
void link_to(uint64_t address, uint32_t count, std::vector<uint64_t>* words) {
  namespace pc = sim::regs::pc;
  for (uint32_t i = 0; i < count; ++i) {
    const sim::Word word = sim::decode((*words)[i]);
    if (word.target != pc::kTarget || word.offset != pc::base_address::kOffset) continue;
    (*words)[i] = sim::with_value((*words)[i], address);
  }
}

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
  forms_.push_back({nullptr, make_table(submit.jobs)});
  if (submit.chip->cbuf_is_shared) forms_.push_back(second_core(submit));
}

std::unique_ptr<RknpuBuffer> RknpuKicks::make_table(const std::vector<JobRef>& jobs) const {
  auto table = std::make_unique<RknpuBuffer>(file_, tasks_.size() * sizeof(rknpu::Task),
                                             RknpuBuffer::Use::kTable);
  uint8_t* place = table->bytes().data();
  uint32_t index = 0;
  for (const JobRef& job : jobs) {
    for (const TaskRef& source : job.tasks) {
      rknpu::Task task;
      task.op_idx = index;
      task.enable_mask = tasks_[index].enable_mask;
      task.int_mask = (task.enable_mask & sim::kEnableDpu) != 0 ? rknpu::kIntDpu : rknpu::kIntPpu;
      task.int_clear = rknpu::kIntClearAll;
      task.regcfg_amount = source.regcmd_count - rknpu::kTailWords;
      task.regcmd_addr = source.regcmd;
      std::memcpy(place + size_t{index} * sizeof(task), &task, sizeof(task));
      ++index;
    }
  }
  table->synchronise(rknpu::kSyncToDevice);
  return table;
}

// Segments keep their order and their links; where they lie is another place.
RknpuKicks::Form RknpuKicks::second_core(const Submit& submit) const {
  uint64_t size = 0;
  for (const JobRef& job : submit.jobs) {
    for (const TaskRef& task : job.tasks) size += segment_bytes(task);
  }
  Form form;
  form.commands = std::make_unique<RknpuBuffer>(file_, size, RknpuBuffer::Use::kHost);
  const Span<uint8_t> place = form.commands->bytes();
  Submit moved = submit;
  moved.inputs.push_back(form.commands.get());
  uint64_t next = 0;
  size_t index = 0;
  for (JobRef& job : moved.jobs) {
    for (TaskRef& task : job.tasks) {
      std::vector<uint64_t> words(segment_bytes(task) / sizeof(uint64_t));
      copy_commands(submit, task, &words);
      move_to_second_banks(*submit.chip, words);
      task.regcmd = form.commands->dma_address() + next;
      const uint64_t behind = next + words.size() * sizeof(uint64_t);
      if (tasks_[index].links_to_next) {
        link_to(form.commands->dma_address() + behind, task.regcmd_count, &words);
      }
      std::memcpy(place.data() + next, words.data(), words.size() * sizeof(uint64_t));
      next = behind;
      ++index;
    }
  }
  // The changed commands are checked as closely as the given ones.
  for (size_t job = 0; job < moved.jobs.size(); ++job) {
    verify_alone(moved, job, 0, moved.jobs[job].tasks.size());
  }
  form.commands->synchronise(rknpu::kSyncToDevice);
  form.table = make_table(moved.jobs);
  return form;
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

int RknpuKicks::take_core(const RknpuCoreChoice& choice) const {
  const int core = file_->cores.acquire(choice, timeout_ms_);
  if (core >= 0) return core;
  const std::string device = "rknpu " + file_->file.path();
  if (core == RknpuCores::kAbsent) {
    throw DeviceError(device +
                      ": this part has none of the cores asked for; choose others with "
                      "option cores, or cores=auto");
  }
  throw DeviceError(device + ": no core was free in three times " + std::to_string(timeout_ms_) +
                    " ms (option timeout_ms): jobs of other interpreters of this process hang or "
                    "take too long; see dmesg");
}

// Drivers 0.8.x wait so that a signal aborts the job and leaves the NPU at work on it, without a
// reset. Later ones do not listen to signals.
int RknpuKicks::request(rknpu::Submit* submit) const {
  const int64_t deadline = monotonic_ns() + timeout_ms_ * kNsPerMs;
  const DrmFile& file = file_->file;
  if (file_->version.at_least(0, 9)) return file.try_request(rknpu::kSubmit, submit, deadline);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int number = file.try_request(rknpu::kSubmit, submit, deadline);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return number;
}

int64_t RknpuKicks::run(const RknpuKick& kick, const RknpuCoreChoice& choice) const {
  file_->file.require_mine("SUBMIT");
  const int core = take_core(choice);
  rknpu::Submit submit;
  submit.flags = rknpu::kJobPc | rknpu::kJobPingPong;
  submit.timeout = timeout_ms_;
  submit.task_start = kick.first;
  submit.task_number = kick.count;
  submit.fence_fd = -1;
  submit.task_obj_addr = form_of(core).table->object();
  submit.core_mask = 1u << core;
  submit.subcore_task[core] = {kick.first, kick.count};
  const int64_t start = monotonic_ns();
  const int number = request(&submit);
  const std::string device = number == 0 ? std::string() : "rknpu " + file_->file.path();
  switch (file_->cores.release(core, number)) {
    case RknpuCores::Verdict::kDone:
      break;
    case RknpuCores::Verdict::kReset:
      throw InterruptedRun(device +
                           ": SUBMIT: the driver ended this job because another one passed its "
                           "time-out and the NPU was reset; find the one that hangs (see dmesg), "
                           "then run this one again");
    case RknpuCores::Verdict::kNoCore:
      throw InterruptedRun(device + ": SUBMIT: the driver refuses core " + std::to_string(core) +
                           ": this part has fewer cores; choose others with option cores, or "
                           "cores=auto");
    case RknpuCores::Verdict::kFailed:
      fail(number, submit);
  }
  // Drivers that do not measure leave the field as it was.
  const int64_t hardware = submit.hw_elapse_time;
  return hardware > 0 && hardware <= monotonic_ns() - start ? hardware : 0;
}

void RknpuKicks::fail(int number, const rknpu::Submit& submit) const {
  if (number != ETIMEDOUT) file_->file.fail("SUBMIT", number);
  // Only a hint: the counter of a core that hangs is not reliable.
  const uint32_t done = std::min(submit.task_counter, submit.task_number);
  throw DeviceError(
      "rknpu " + file_->file.path() + ": no result after " + std::to_string(timeout_ms_) +
      " ms (option timeout_ms): the NPU hangs or is busy; the driver counted " +
      std::to_string(submit.task_start + done) + " of " + std::to_string(tasks_.size()) + " tasks");
}

}  // namespace rk3588
