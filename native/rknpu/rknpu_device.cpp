#include "rknpu/rknpu_device.h"

#include <atomic>
#include <vector>

#include "host/core_plan.h"
#include "host/devices.h"
#include "host/run_log.h"
#include "host/stream_verifier.h"
#include "rknpu/rknpu_buffer.h"
#include "rknpu/rknpu_kicks.h"
#include "rknpu/rknpu_submission.h"
#include "rknpu/rknpu_uapi.h"

namespace rk3588 {
namespace {

RknpuBuffer& rknpu_buffer(Buffer& buffer) { return static_cast<RknpuBuffer&>(buffer); }

// All jobs in order, each on a free core of the choice.
class RknpuSubmission : public Submission {
 public:
  RknpuSubmission(std::shared_ptr<RknpuFile> file, const RknpuCoreChoice& choice,
                  const Submit& submit, const VerifiedJobs& verified, uint64_t proof)
      : kicks_(std::move(file), submit, verified), choice_(choice), proof_(proof) {
    uint32_t total = 0;
    for (size_t job = 0; job < submit.jobs.size(); ++job) {
      const auto count = static_cast<uint32_t>(submit.jobs[job].tasks.size());
      const std::vector<RknpuKick> kicks = kicks_.plan(total, count);
      for (const RknpuKick& kick : kicks) {
        // Registers of a core that ran something else in between are no one's.
        if (kicks.size() > 1 || submit.jobs.size() > 1) {
          verify_alone(submit, job, kick.first - total, kick.count);
        }
        submits_.push_back(kicks_.make_submit(kick));
      }
      total += count;
    }
  }

  Span<const uint64_t> task_targets() const override { return kicks_.targets(); }
  uint64_t proof() const override { return proof_; }

  void begin() override { kicks_.file()->file.require_mine("SUBMIT"); }

  void run() override {
    int64_t hardware_ns = 0;
    bool is_told = true;
    for (const rknpu::Submit& submit : submits_) {
      const int64_t ns = kicks_.run(submit, choice_);
      is_told = is_told && ns != 0;
      hardware_ns += ns;
    }
    // A request submits and waits.
    if (is_told) note_waited(hardware_ns);
  }

 private:
  RknpuKicks kicks_;
  RknpuCoreChoice choice_;
  uint64_t proof_;
  std::vector<rknpu::Submit> submits_;
};

uint32_t mask_of(const std::vector<int>& cores) {
  uint32_t mask = 0;
  for (const int core : cores) mask |= 1u << core;
  return mask;
}

// Streams take the listed cores in turn; without a list, every submit takes any that is free.
RknpuCoreChoice next_choice(const std::string& cores, const Chip& chip) {
  static std::atomic<size_t> turn{0};
  const std::vector<int> list = parse_cores(cores, chip);
  if (list.empty()) return {mask_of(parse_cores("all", chip)), 0};
  return {1u << list[turn++ % list.size()], mask_of(list)};
}

}  // namespace

RknpuDevice::RknpuDevice(std::shared_ptr<RknpuFile> file, const RknpuCoreChoice& choice,
                         std::string cores, const Chip& chip)
    : file_(std::move(file)), choice_(choice), cores_(std::move(cores)), chip_(chip) {}

std::unique_ptr<Buffer> RknpuDevice::allocate(size_t size, BufferId) {
  return std::make_unique<RknpuBuffer>(file_, size, RknpuBuffer::Use::kHost);
}

std::shared_ptr<Buffer> RknpuDevice::constants(Span<const uint8_t> content, size_t size,
                                               Spend spend) {
  return file_->constants.get(
      content, size, spend, [&]() { return allocate(size, BufferId::kConstants); },
      [](Buffer& buffer) { rknpu_buffer(buffer).synchronise(rknpu::kSyncToDevice); });
}

void RknpuDevice::sync_for_device(Buffer& buffer) {
  rknpu_buffer(buffer).synchronise(rknpu::kSyncToDevice);
}

void RknpuDevice::sync_for_cpu(Buffer& buffer) {
  rknpu_buffer(buffer).synchronise(rknpu::kSyncFromDevice);
}

std::unique_ptr<Submission> RknpuDevice::prepare(const Submit& submit) {
  require_runs(*this, submit);
  const VerifiedJobs verified = verify_streams(submit);
  std::vector<int> cores = parse_cores(cores_, chip());
  if (cores.empty()) cores = parse_cores("all", chip());
  std::vector<RknpuCoreChoice> choices;
  if (uses_cores(submit) && cores.size() > 1) {
    for (const int core : cores) choices.push_back({1u << core, mask_of(cores)});
  } else {
    choices = {choice_};
  }
  const CorePlan plan = plan_cores(submit, verified, choices.size());
  const uint64_t proof = plan.only_mark();
  if (proof != kNoMark) {
    return std::make_unique<RknpuSubmission>(file_, choice_, submit, verified, proof);
  }
  return make_rknpu_split(file_, choices, submit, verified, plan);
}

std::shared_ptr<Device> RknpuDevice::open_stream() {
  return make_rknpu_device(file_->file.path(), cores_, chip_);
}

std::vector<std::shared_ptr<Device>> RknpuDevice::open_cores() {
  std::vector<int> cores = parse_cores(cores_, chip());
  if (cores.empty()) cores = parse_cores("all", chip());
  std::vector<std::shared_ptr<Device>> devices;
  for (const int core : cores) {
    const RknpuCoreChoice choice{1u << core, mask_of(cores)};
    const auto file = RknpuFile::open(file_->file.path());
    devices.push_back(std::make_shared<RknpuDevice>(file, choice, cores_, chip_));
  }
  return devices;
}

std::shared_ptr<Device> make_rknpu_device(const std::string& node, const std::string& cores,
                                          const Chip& chip) {
  return std::make_shared<RknpuDevice>(RknpuFile::open(node), next_choice(cores, chip), cores,
                                       chip);
}

}  // namespace rk3588
