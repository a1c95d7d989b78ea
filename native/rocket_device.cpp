#include "rocket_device.h"

#include <cerrno>
#include <fstream>
#include <vector>

#include "devices.h"
#include "rocket_buffer.h"
#include "rocket_uapi.h"
#include "run_log.h"
#include "stream_pool.h"
#include "stream_verifier.h"

namespace rk3588 {
namespace {

// Far above the kernel's own limit of half a second per job, so that others' jobs may come first.
constexpr uint32_t kDefaultTimeoutMs = 10'000;
constexpr int64_t kNsPerMs = 1'000'000;
// The kernel's limit for a job, twice, for what still runs when a file is closed.
constexpr int64_t kCloseWaitNs = 2 * int64_t{rocket::kKernelJobTimeoutMs} * kNsPerMs;
constexpr uint32_t kEnableDpu = 0x08;
constexpr char kBatchSwitch[] = "/sys/module/rocket/parameters/rocket_batch_submit";

bool batch_switch_is_on() {
  std::ifstream file(kBatchSwitch);
  char value = '0';
  file >> value;
  return file.good() && value != '0' && value != 'N';
}

RocketBuffer& rocket_buffer(Buffer& buffer) { return static_cast<RocketBuffer&>(buffer); }

// The argument of SUBMIT with everything it points to, built once.
class RocketSubmission : public Submission {
 public:
  RocketSubmission(std::shared_ptr<RocketFile> file, const Submit& submit)
      : file_(std::move(file)),
        timeout_ms_(submit.timeout_ms != 0 ? submit.timeout_ms : kDefaultTimeoutMs) {
    const VerifiedJobs verified = verify_streams(submit);
    if (submit.outputs.empty()) throw DeviceError(name() + ": a submit has no outputs");
    for (Buffer* buffer : submit.inputs) in_.push_back(rocket_buffer(*buffer).handle());
    for (Buffer* buffer : submit.outputs) out_.push_back(rocket_buffer(*buffer).handle());
    output_ = &rocket_buffer(*submit.outputs.back());
    for (size_t j = 0; j < submit.jobs.size(); ++j) {
      for (size_t t = 0; t < submit.jobs[j].tasks.size(); ++t) {
        const TaskRef& task = submit.jobs[j].tasks[t];
        tasks_.push_back({static_cast<uint32_t>(task.regcmd), task.regcmd_count});
        targets_.push_back(verified[j][t].target);
      }
    }
    build_jobs(submit, verified);
    submit_.jobs = reinterpret_cast<uintptr_t>(jobs_.data());
    submit_.job_count = static_cast<uint32_t>(jobs_.size());
    submit_.job_struct_size = file_->features.version.at_least(1, 1)
                                  ? static_cast<uint32_t>(sizeof(rocket::Job))
                                  : rocket::kJobBytes;
  }

  // Stock kernels free memory that a running job uses when the file is closed.
  ~RocketSubmission() override {
    if (is_running_ && file_->file.is_mine()) {
      static_cast<void>(output_->take_for_host(monotonic_ns() + kCloseWaitNs));
    }
  }

  Span<const uint64_t> task_targets() const override { return targets_; }

  void begin() override {
    file_->file.require_mine("SUBMIT");
    if (!is_running_) return;
    // Nobody may touch the buffers while the device still works on them.
    const int number = output_->take_for_host(deadline());
    if (number != 0) file_->file.fail("waiting for an earlier run that timed out", number);
    is_running_ = false;
  }

  void run() override {
    output_->give_back_if_held();
    file_->file.request(rocket::kSubmit, &submit_, "SUBMIT", deadline());
    note_submitted();
    // The completion is attached to all outputs: waiting for one is waiting for the job.
    const int number = output_->take_for_host(deadline());
    if (number == 0) return;
    is_running_ = true;
    if (number == ETIMEDOUT) {
      throw DeviceError(name() + ": no result after " + std::to_string(timeout_ms_) +
                        " ms (option timeout_ms): the NPU hangs or is busy with other programs");
    }
    file_->file.fail("PREP_BO", number);
  }

 private:
  std::string name() const { return "rocket " + file_->file.path(); }
  int64_t deadline() const { return monotonic_ns() + timeout_ms_ * kNsPerMs; }

  // All tasks become one job, so that a job that the kernel drops or resets takes the last task
  // with it, which is what the host looks for. Where the driver offers it, a job whose tasks are
  // linked is one kick.
  void build_jobs(const Submit& submit, const VerifiedJobs& verified) {
    bool is_chain =
        submit.jobs.size() == 1 && tasks_.size() > 1 && tasks_.size() <= rocket::kMaxChainTasks;
    size_t count = 0;
    size_t ppu = 0;
    for (const auto& job : verified) {
      for (const VerifiedTask& task : job) {
        if ((task.enable_mask & kEnableDpu) == 0) ++ppu;
        if (++count < tasks_.size() && !task.links_to_next) is_chain = false;
      }
    }
    rocket::Job job;
    job.tasks = reinterpret_cast<uintptr_t>(tasks_.data());
    job.task_count = static_cast<uint32_t>(tasks_.size());
    job.task_struct_size = sizeof(rocket::Task);
    job.in_bo_handles = reinterpret_cast<uintptr_t>(in_.data());
    job.in_bo_handle_count = static_cast<uint32_t>(in_.size());
    job.out_bo_handles = reinterpret_cast<uintptr_t>(out_.data());
    job.out_bo_handle_count = static_cast<uint32_t>(out_.size());
    const bool all_ppu = ppu == tasks_.size();
    // The kernel listens to one kind of interrupt per job: a task of the other kind would take the
    // kernel's time-out and a reset of the core. In a chain only the last task counts.
    const bool batched = is_chain && file_->features.batched;
    const bool ends_with_dpu = (verified.back().back().enable_mask & kEnableDpu) != 0;
    if (ppu != 0 && !(batched && ends_with_dpu) && !(all_ppu && file_->features.ppu_done)) {
      throw DeviceError(name() + ": driver " + file_->features.version.text() +
                        " cannot finish pooling tasks of this program (it waits for the DPU's "
                        "interrupt); leave them to the CPU with option deny_ops");
    }
    if (batched) job.flags |= rocket::kJobBatched;
    if (all_ppu) job.flags |= rocket::kJobPpuDone;
    jobs_.push_back(job);
  }

  std::shared_ptr<RocketFile> file_;
  uint32_t timeout_ms_;
  std::vector<uint32_t> in_;
  std::vector<uint32_t> out_;
  std::vector<rocket::Task> tasks_;
  std::vector<rocket::Job> jobs_;
  std::vector<uint64_t> targets_;
  rocket::Submit submit_;
  RocketBuffer* output_ = nullptr;
  bool is_running_ = false;  // an earlier run timed out and may still go on
};

}  // namespace

RocketFeatures rocket_features(const DrmFile& file) {
  RocketFeatures features;
  features.version = file.version();
  if (features.version.name != kRocketDriver) {
    throw DeviceError(file.path() + ": its driver is " + features.version.text() +
                      ", not rocket; choose another node or device=auto");
  }
  features.batched = features.version.at_least(1, 1) && batch_switch_is_on();
  features.ppu_done = features.version.at_least(1, 3);
  return features;
}

RocketFile::RocketFile(const std::string& node) : file(node), features(rocket_features(file)) {}

RocketDevice::RocketDevice(std::shared_ptr<RocketFile> file, std::string cores)
    : file_(std::move(file)), cores_(std::move(cores)) {}

std::unique_ptr<Buffer> RocketDevice::allocate(size_t size, BufferId) {
  return std::make_unique<RocketBuffer>(file_, size);
}

void RocketDevice::sync_for_device(Buffer& buffer) { rocket_buffer(buffer).give_to_device(); }

void RocketDevice::sync_for_cpu(Buffer& buffer) {
  const int number =
      rocket_buffer(buffer).take_for_host(monotonic_ns() + kDefaultTimeoutMs * kNsPerMs);
  if (number != 0) file_->file.fail("PREP_BO", number);
}

std::unique_ptr<Submission> RocketDevice::prepare(const Submit& submit) {
  return std::make_unique<RocketSubmission>(file_, submit);
}

std::shared_ptr<Device> RocketDevice::open_stream() {
  return make_rocket_device(file_->file.path(), cores_);
}

std::shared_ptr<Device> make_rocket_device(const std::string& node, const std::string& cores) {
  const size_t limit = parse_cores(cores).size();
  if (limit == 0) {
    return std::make_shared<RocketDevice>(std::make_shared<RocketFile>(node), cores);
  }
  static StreamPool<RocketFile> pool;
  return std::make_shared<RocketDevice>(
      pool.next(node, limit, [&] { return std::make_shared<RocketFile>(node); }), cores);
}

}  // namespace rk3588
