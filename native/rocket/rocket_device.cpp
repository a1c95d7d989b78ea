// The NPU behind the mainline kernel driver `rocket`.
//
// The kernel gives each open file an address space from 0 up, runs its jobs in order on whichever
// core is free, resets a core whose job takes more than half a second, and reports no failure of a
// job to anybody. So: one file per stream of submits, absolute time-outs, and marks in memory that
// prove runs (PieceSubmission).
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "host/devices.h"
#include "host/piece_submission.h"
#include "host/stream_verifier.h"
#include "rocket/rocket_buffer.h"
#include "rocket/rocket_file.h"
#include "rocket/rocket_uapi.h"

namespace rk3588 {
namespace {

// Far above the kernel's own limit of half a second per job, so that others' jobs may come first.
constexpr uint32_t kRocketTimeoutMs = 10'000;

struct RocketTask {
  TaskRef task;
  VerifiedTask verified;
};

// One job of the driver: the argument of SUBMIT with everything it points to, built once.
class RocketJob {
 public:
  // All tasks become one job, so that a job that the kernel drops or resets takes the last task
  // with it, which is what the host looks for. Where the driver offers it, a job whose tasks are
  // linked is one kick. Throws DeviceError.
  RocketJob(std::shared_ptr<RocketFile> file, const std::vector<RocketTask>& tasks,
            const std::vector<RocketBuffer*>& inputs, const std::vector<RocketBuffer*>& outputs);
  // The buffers must still be there.
  ~RocketJob();
  RocketJob(const RocketJob&) = delete;
  RocketJob& operator=(const RocketJob&) = delete;

  // Gives the buffers that the host holds back and hands the job over. Throws DeviceError.
  void submit(uint32_t timeout_ms);
  // Until the job is done: its outputs are the host's. Throws DeviceError.
  void wait(uint32_t timeout_ms);
  // For a run that was given up and may still go on: nobody may touch its buffers. Throws
  // DeviceError.
  void wait_for_earlier(uint32_t timeout_ms);

 private:
  std::string name() const { return "rocket " + file_->file.path(); }
  void note_done();
  // Nobody waits for it any longer.
  void abandon();
  void choose_flags(const std::vector<RocketTask>& tasks);

  std::shared_ptr<RocketFile> file_;
  std::vector<RocketBuffer*> buffers_;
  std::vector<uint32_t> in_;
  std::vector<uint32_t> out_;
  std::vector<rocket::Task> tasks_;
  rocket::Job job_;
  rocket::Submit submit_;
  RocketBuffer* output_ = nullptr;  // the completion is attached to all outputs: one tells
  bool may_run_ = false;            // handed over, and its end was not seen here
  bool is_abandoned_ = false;
};

bool ends_with_dpu(const RocketTask& task) {
  return (task.verified.enable_mask & sim::kEnableDpu) != 0;
}

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

std::vector<RocketBuffer*> rocket_buffers(const std::vector<Buffer*>& buffers) {
  std::vector<RocketBuffer*> found;
  for (Buffer* buffer : buffers) found.push_back(static_cast<RocketBuffer*>(buffer));
  return found;
}

// The kernel runs the jobs of one open file on one core at a time, in order, and reports no failure
// of theirs: the host waits for each piece (PREP_BO) and looks for the mark that its last task
// overwrites.
class RocketSubmission : public PieceSubmission {
 public:
  RocketSubmission(std::shared_ptr<RocketFile> file, const Submit& submit,
                   const VerifiedJobs& verified)
      : PieceSubmission("rocket " + file->file.path(), submit, verified),
        timeout_ms_(submit.timeout_ms != 0 ? submit.timeout_ms : kRocketTimeoutMs),
        file_(std::move(file)) {
    for (const std::vector<JobPart>& piece : pieces()) {
      std::vector<RocketTask> tasks;
      for (const JobPart& part : piece) {
        for (size_t t = part.first; t < part.first + part.count; ++t) {
          tasks.push_back({submit.jobs[part.job].tasks[t], verified[part.job][t]});
        }
      }
      jobs_.push_back(std::make_unique<RocketJob>(file_, tasks, rocket_buffers(submit.inputs),
                                                  rocket_buffers(submit.outputs)));
    }
  }

  void begin() override {
    file_->file.require_mine("SUBMIT");
    for (const auto& job : jobs_) job->wait_for_earlier(timeout_ms_);
  }

 private:
  void take_atom(Buffer& buffer, size_t) override {
    static_cast<RocketBuffer&>(buffer).hold(monotonic_ns() + timeout_ms_ * kNsPerMs);
  }

  int64_t run_piece(size_t piece) override {
    jobs_[piece]->submit(timeout_ms_);
    const int64_t start = monotonic_ns();
    jobs_[piece]->wait(timeout_ms_);
    return monotonic_ns() - start;
  }

  uint32_t timeout_ms_;
  std::shared_ptr<RocketFile> file_;
  std::vector<std::unique_ptr<RocketJob>> jobs_;  // by piece
};

class RocketDevice : public Device {
 public:
  // `cores`: "auto", or the list that limits how many streams of this process run at once.
  RocketDevice(std::shared_ptr<RocketFile> file, std::string cores, const Chip& chip)
      : file_(std::move(file)), cores_(std::move(cores)), chip_(chip) {}

  std::string name() const override { return "rocket " + file_->file.path(); }
  std::string driver() const override { return file_->features.version.text(); }
  const Chip& chip() const override { return chip_; }
  std::unique_ptr<Buffer> allocate(size_t size, BufferId) override {
    return std::make_unique<RocketBuffer>(file_, size);
  }
  void sync_for_device(Buffer& buffer) override {
    static_cast<RocketBuffer&>(buffer).give_to_device();
  }
  void sync_for_cpu(Buffer& buffer) override {
    static_cast<RocketBuffer&>(buffer).hold(monotonic_ns() + kRocketCloseWaitNs);
  }
  std::unique_ptr<Submission> prepare(const Submit& submit) override {
    require_runs(*this, submit);
    return std::make_unique<RocketSubmission>(file_, submit, verify_streams(submit));
  }
  std::shared_ptr<Device> open_stream() override {
    return make_rocket_device(file_->file.path(), cores_, chip_);
  }
  // As many files: the kernel chooses cores that are free.
  std::vector<std::shared_ptr<Device>> open_cores() override {
    std::vector<std::shared_ptr<Device>> devices;
    for (size_t i = usable_cores(cores_, chip()).size(); i > 0; --i) {
      const auto file = RocketFile::open(file_->file.path(), chip_);
      devices.push_back(std::make_shared<RocketDevice>(file, cores_, chip_));
    }
    return devices;
  }

 private:
  std::shared_ptr<RocketFile> file_;
  std::string cores_;
  const Chip& chip_;
};

}  // namespace

// With a list of cores, streams share as many files, in turn.
std::shared_ptr<Device> make_rocket_device(const std::string& node, const std::string& cores,
                                           const Chip& chip) {
  const size_t limit = parse_cores(cores, chip).size();
  if (limit == 0) {
    return std::make_shared<RocketDevice>(RocketFile::open(node, chip), cores, chip);
  }
  struct Shared {
    size_t turn = 0;
    std::map<size_t, std::weak_ptr<RocketFile>> files;
  };
  static std::mutex mutex;
  // A forked child must not use its parent's files.
  static std::map<std::tuple<pid_t, std::string, size_t>, Shared> all;
  const std::lock_guard<std::mutex> lock(mutex);
  Shared& shared = all[{getpid(), node, limit}];
  std::weak_ptr<RocketFile>& place = shared.files[shared.turn++ % limit];
  std::shared_ptr<RocketFile> file = place.lock();
  if (file == nullptr) {
    file = RocketFile::open(node, chip);
    place = file;
  }
  return std::make_shared<RocketDevice>(std::move(file), cores, chip);
}

}  // namespace rk3588
