// A submit for the vendor's driver: its task tables, and an ioctl for each kick on one core.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "chip/registers_gen.h"
#include "host/core_banks.h"
#include "host/piece_submission.h"
#include "rknpu/rknpu_buffer.h"
#include "rknpu/rknpu_device.h"
#include "rknpu/rknpu_uapi.h"

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
constexpr size_t kCacheLineBytes = 64;

// The line of a place in a buffer. Buffers are page-aligned.
void synchronise_line(Buffer& buffer, size_t offset, uint32_t direction) {
  static_cast<RknpuBuffer&>(buffer).synchronise(
      direction, offset / kCacheLineBytes * kCacheLineBytes, kCacheLineBytes);
}

// Tasks that go to the hardware in one kick.
struct RknpuKick {
  uint32_t first = 0;
  uint32_t count = 0;
};

class RknpuSubmission : public PieceSubmission {
 public:
  RknpuSubmission(std::shared_ptr<RknpuFile> file, const RknpuCoreChoice& choice,
                  const Submit& submit, const VerifiedJobs& verified);
  void begin() override { file_->file.require_mine("SUBMIT"); }

 private:
  // The commands and the table of a core: on most chips the same for all cores; where these have
  // banks of a CBUF in common (host/core_banks.h), one with commands of its own for each.
  struct Form {
    std::unique_ptr<RknpuBuffer> commands;  // nullptr: the submit's
    std::unique_ptr<RknpuBuffer> table;
  };

  // Nothing of the line may be lost: what others wrote there comes first.
  void take_atom(Buffer& buffer, size_t offset) override {
    synchronise_line(buffer, offset, rknpu::kSyncFromDevice);
  }
  void give_atom(Buffer& buffer, size_t offset) override {
    synchronise_line(buffer, offset, rknpu::kSyncToDevice);
  }
  int64_t run_piece(size_t piece) override;

  // Writes the table of all tasks.
  std::unique_ptr<RknpuBuffer> make_table(const std::vector<JobRef>& jobs) const;
  Form second_core(const Submit& submit) const;
  const Form& form_of(int core) const {
    return forms_[std::min(static_cast<size_t>(core), forms_.size() - 1)];
  }
  // Chains of at most 4095 linked tasks out of [first, first + count), never cut in front of a task
  // that reuses what the one before it left in CBUF: between two kicks another stream may use the
  // core. Throws DeviceError.
  std::vector<RknpuKick> plan(uint32_t first, uint32_t count) const;
  // On a core of the choice, once it is free. Nanoseconds that the hardware took, 0 if the driver
  // does not tell. Throws DeviceError; InterruptedRun where the job is not to blame.
  int64_t run_kick(const RknpuKick& kick) const;
  int take_core() const;
  int request(rknpu::Submit* submit) const;
  [[noreturn]] void fail(int number, const rknpu::Submit& submit) const;

  std::shared_ptr<RknpuFile> file_;
  RknpuCoreChoice choice_;
  uint32_t timeout_ms_;
  std::vector<VerifiedTask> tasks_;
  std::vector<Form> forms_;  // by core
  std::vector<std::vector<RknpuKick>> kicks_of_piece_;
};

RknpuSubmission::RknpuSubmission(std::shared_ptr<RknpuFile> file, const RknpuCoreChoice& choice,
                                 const Submit& submit, const VerifiedJobs& verified)
    : PieceSubmission("rknpu " + file->file.path(), submit, verified),
      file_(std::move(file)),
      choice_(choice),
      timeout_ms_(submit.timeout_ms != 0 ? submit.timeout_ms : kDefaultTimeoutMs) {
  for (const auto& job : verified) {
    for (const VerifiedTask& task : job) {
      tasks_.push_back(task);
      tasks_.back().access.reads = {};  // large, and of no use here
      tasks_.back().access.writes = {};
    }
  }
  forms_.push_back({nullptr, make_table(submit.jobs)});
  if (submit.chip->cbuf_is_shared) forms_.push_back(second_core(submit));
  std::vector<uint32_t> first_task;
  uint32_t count = 0;
  for (const JobRef& job : submit.jobs) {
    first_task.push_back(count);
    count += static_cast<uint32_t>(job.tasks.size());
  }
  for (const std::vector<JobPart>& piece : pieces()) {
    std::vector<RknpuKick>& planned = kicks_of_piece_.emplace_back();
    for (const JobPart& part : piece) {
      const uint32_t base = first_task[part.job];
      const uint32_t first = base + static_cast<uint32_t>(part.first);
      for (const RknpuKick& kick : plan(first, static_cast<uint32_t>(part.count))) {
        // Registers of a core that ran something else in between are no one's.
        if (kick.count != count) verify_alone(submit, part.job, kick.first - base, kick.count);
        planned.push_back(kick);
      }
    }
  }
}

std::unique_ptr<RknpuBuffer> RknpuSubmission::make_table(const std::vector<JobRef>& jobs) const {
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
RknpuSubmission::Form RknpuSubmission::second_core(const Submit& submit) const {
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

std::vector<RknpuKick> RknpuSubmission::plan(uint32_t first, uint32_t count) const {
  constexpr uint32_t kLimit = rknpu::kMaxChainTasks;
  std::vector<RknpuKick> kicks;
  const uint32_t total = first + count;
  while (first < total) {
    uint32_t end = first + 1;
    uint32_t cut = end < total && tasks_[end].access.reuses_cbuf ? first : end;  // where it may end
    while (end < total && tasks_[end - 1].links_to_next && end - first < kLimit) {
      ++end;
      if (end == total || !tasks_[end].access.reuses_cbuf) cut = end;
    }
    const bool is_cut = end < total && tasks_[end - 1].links_to_next;
    if (is_cut) end = cut;
    if (end <= first || tasks_[first].access.reuses_cbuf) {
      throw StreamError("refused before it reached the NPU: task " + std::to_string(first) +
                        " reuses weights or data of a task that is not in its chain of at most " +
                        std::to_string(kLimit) + "; compile the model again");
    }
    kicks.push_back({first, end - first});
    first = end;
  }
  return kicks;
}

int RknpuSubmission::take_core() const {
  const int core = file_->cores.acquire(choice_, timeout_ms_);
  if (core >= 0) return core;
  if (core == RknpuCores::kAbsent) {
    throw DeviceError(device() +
                      ": this part has none of the cores asked for; choose others with "
                      "option cores, or cores=auto");
  }
  throw DeviceError(device() + ": no core was free in three times " + std::to_string(timeout_ms_) +
                    " ms (option timeout_ms): jobs of other interpreters of this process hang or "
                    "take too long; see dmesg");
}

// Drivers 0.8.x wait so that a signal aborts the job and leaves the NPU at work on it, without a
// reset. Later ones do not listen to signals.
int RknpuSubmission::request(rknpu::Submit* submit) const {
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

int64_t RknpuSubmission::run_kick(const RknpuKick& kick) const {
  file_->file.require_mine("SUBMIT");
  const int core = take_core();
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
  switch (file_->cores.release(core, number)) {
    case RknpuCores::Verdict::kDone:
      break;
    case RknpuCores::Verdict::kReset:
      throw InterruptedRun(device() +
                           ": SUBMIT: the driver ended this job because another one passed its "
                           "time-out and the NPU was reset; find the one that hangs (see dmesg), "
                           "then run this one again");
    case RknpuCores::Verdict::kNoCore:
      throw InterruptedRun(device() + ": SUBMIT: the driver refuses core " + std::to_string(core) +
                           ": this part has fewer cores; choose others with option cores, or "
                           "cores=auto");
    case RknpuCores::Verdict::kFailed:
      fail(number, submit);
  }
  // Drivers that do not measure leave the field as it was.
  const int64_t hardware = submit.hw_elapse_time;
  return hardware > 0 && hardware <= monotonic_ns() - start ? hardware : 0;
}

void RknpuSubmission::fail(int number, const rknpu::Submit& submit) const {
  if (number != ETIMEDOUT) file_->file.fail("SUBMIT", number);
  // Only a hint: the counter of a core that hangs is not reliable.
  const uint32_t done = std::min(submit.task_counter, submit.task_number);
  throw DeviceError(device() + ": no result after " + std::to_string(timeout_ms_) +
                    " ms (option timeout_ms): the NPU hangs or is busy; the driver counted " +
                    std::to_string(submit.task_start + done) + " of " +
                    std::to_string(tasks_.size()) + " tasks");
}

int64_t RknpuSubmission::run_piece(size_t piece) {
  int64_t hardware_ns = 0;
  bool is_told = true;
  for (const RknpuKick& kick : kicks_of_piece_[piece]) {
    const int64_t ns = run_kick(kick);
    is_told = is_told && ns != 0;
    hardware_ns += ns;
  }
  return is_told ? hardware_ns : 0;
}

}  // namespace

std::unique_ptr<Submission> make_rknpu_submission(std::shared_ptr<RknpuFile> file,
                                                  const RknpuCoreChoice& choice,
                                                  const Submit& submit,
                                                  const VerifiedJobs& verified) {
  return std::make_unique<RknpuSubmission>(std::move(file), choice, submit, verified);
}

}  // namespace rk3588
