// The NPU behind the vendor's kernel driver `rknpu` (DRM build, versions 0.8 to 0.9.8).
//
// One submit runs a whole chain in one kick and returns when it is done. The driver reads the task
// table through its own mapping. Plans for several cores are not expressible here: each submit runs
// on one core, chosen by the process (RknpuCores).
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host/core_banks.h"
#include "host/devices.h"
#include "host/piece_submission.h"
#include "host/stream_verifier.h"
#include "rknpu/rknpu_buffer.h"
#include "rknpu/rknpu_file.h"
#include "rknpu/rknpu_uapi.h"

namespace rk3588 {
namespace {

// The vendor's runtime waits so long for one submit.
constexpr uint32_t kDefaultTimeoutMs = 6000;

bool holds_commands(Buffer& buffer, const Submit& submit) {
  const std::vector<Buffer*> alone{&buffer};
  for (const JobRef& job : submit.jobs) {
    for (const TaskRef& task : job.tasks) {
      if (find_address(alone, task.regcmd)) return true;
    }
  }
  return false;
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

// A submit: its task tables, and an ioctl for each kick on one core.
class RknpuSubmission : public PieceSubmission {
 public:
  RknpuSubmission(std::shared_ptr<RknpuFile> file, const RknpuCoreChoice& choice,
                  const Submit& submit, const VerifiedJobs& verified);
  void begin() override { file_->file.require_mine("SUBMIT"); }

 private:
  // The commands and the table of a core: on most chips the same for all cores; where these have
  // banks of a CBUF in common (host/core_banks.h), one with commands of its own for each.
  struct Form {
    std::vector<std::unique_ptr<RknpuBuffer>> commands;  // none: the submit's
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
  forms_.push_back({{}, make_table(submit.jobs)});
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

// Copies of the buffers that hold commands, linked as these are, with the second core's banks.
RknpuSubmission::Form RknpuSubmission::second_core(const Submit& submit) const {
  Form form;
  std::vector<Buffer*> from;
  std::vector<Buffer*> to;
  for (Buffer* buffer : submit.inputs) {
    if (!holds_commands(*buffer, submit)) continue;
    const Span<uint8_t> content = buffer->bytes();
    form.commands.push_back(
        std::make_unique<RknpuBuffer>(file_, content.size(), RknpuBuffer::Use::kHost));
    from.push_back(buffer);
    to.push_back(form.commands.back().get());
    std::memcpy(to.back()->bytes().data(), content.data(), content.size());
  }
  Submit moved = submit;
  moved.inputs.insert(moved.inputs.end(), to.begin(), to.end());
  moved.jobs = move_jobs(submit.jobs, from, to, *submit.chip, nullptr);
  std::set<uint64_t> seen;  // segments that several tasks share
  for (const JobRef& job : moved.jobs) {
    for (const TaskRef& task : job.tasks) {
      if (!seen.insert(task.regcmd).second) continue;
      const AddressPlace at = find_address(to, task.regcmd).value();
      auto* words = reinterpret_cast<uint64_t*>(to[at.index]->bytes().data() + at.offset);
      move_to_second_banks(*submit.chip, {words, task.regcmd_count});
    }
  }
  // The changed commands are checked as closely as the given ones.
  for (size_t job = 0; job < moved.jobs.size(); ++job) {
    verify_alone(moved, job, 0, moved.jobs[job].tasks.size());
  }
  for (const auto& buffer : form.commands) buffer->synchronise(rknpu::kSyncToDevice);
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

uint32_t mask_of(const std::vector<int>& cores) {
  uint32_t mask = 0;
  for (const int core : cores) mask |= 1u << core;
  return mask;
}

// One choice for each core that `cores` names: that core, or another of them.
std::vector<RknpuCoreChoice> choices_of(const std::string& cores, const Chip& chip) {
  const std::vector<int> list = usable_cores(cores, chip);
  std::vector<RknpuCoreChoice> choices;
  for (const int core : list) choices.push_back({1u << core, mask_of(list)});
  return choices;
}

// Streams take the listed cores in turn; without a list, every submit takes any that is free.
RknpuCoreChoice next_choice(const std::string& cores, const Chip& chip) {
  static std::atomic<size_t> turn{0};
  const std::vector<RknpuCoreChoice> list = choices_of(cores, chip);
  if (parse_cores(cores, chip).empty()) return {list.front().instead, 0};
  return list[turn++ % list.size()];
}

class RknpuDevice : public Device {
 public:
  // `choice`: cores that submits may use. `cores`: see DeviceSettings.
  RknpuDevice(std::shared_ptr<RknpuFile> file, const RknpuCoreChoice& choice, std::string cores,
              const Chip& chip)
      : file_(std::move(file)), choice_(choice), cores_(std::move(cores)), chip_(chip) {}

  std::string name() const override { return "rknpu " + file_->file.path(); }
  std::string driver() const override { return file_->file.version().text(); }
  const Chip& chip() const override { return chip_; }
  std::unique_ptr<Buffer> allocate(size_t size, BufferId) override {
    return std::make_unique<RknpuBuffer>(file_, size, RknpuBuffer::Use::kHost);
  }
  std::shared_ptr<Buffer> constants(Span<const uint8_t> content, size_t size,
                                    Spend spend) override {
    return file_->constants.get(
        content, size, spend, [&]() { return allocate(size, BufferId::kConstants); },
        [this](Buffer& buffer) { sync_for_device(buffer); });
  }
  std::shared_ptr<Buffer> adopt(const std::shared_ptr<SharedMemory>& memory, BufferId) override {
    return std::make_shared<RknpuBuffer>(file_, memory);
  }
  void sync_for_device(Buffer& buffer) override {
    static_cast<RknpuBuffer&>(buffer).synchronise(rknpu::kSyncToDevice);
  }
  void sync_for_cpu(Buffer& buffer) override {
    static_cast<RknpuBuffer&>(buffer).synchronise(rknpu::kSyncFromDevice);
  }
  std::unique_ptr<Submission> prepare(const Submit& submit) override {
    require_runs(*this, submit);
    return std::make_unique<RknpuSubmission>(file_, choice_, submit, verify_streams(submit));
  }
  std::shared_ptr<Device> open_stream() override {
    return make_rknpu_device(file_->file.path(), cores_, chip_);
  }
  std::vector<std::shared_ptr<Device>> open_cores() override {
    std::vector<std::shared_ptr<Device>> devices;
    for (const RknpuCoreChoice& choice : choices_of(cores_, chip())) {
      const auto file = RknpuFile::open(file_->file.path());
      devices.push_back(std::make_shared<RknpuDevice>(file, choice, cores_, chip_));
    }
    return devices;
  }

 private:
  std::shared_ptr<RknpuFile> file_;
  RknpuCoreChoice choice_;
  std::string cores_;
  const Chip& chip_;
};

}  // namespace

std::shared_ptr<Device> make_rknpu_device(const std::string& node, const std::string& cores,
                                          const Chip& chip) {
  return std::make_shared<RknpuDevice>(RknpuFile::open(node), next_choice(cores, chip), cores,
                                       chip);
}

}  // namespace rk3588
