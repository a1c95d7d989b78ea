#include "rknpu_device.h"

#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <vector>

#include "core_plan.h"
#include "devices.h"
#include "rknpu_buffer.h"
#include "rknpu_kicks.h"
#include "rknpu_split.h"
#include "rknpu_uapi.h"
#include "run_log.h"
#include "stream_verifier.h"

namespace rk3588 {
namespace {

RknpuBuffer& rknpu_buffer(Buffer& buffer) { return static_cast<RknpuBuffer&>(buffer); }

// All jobs in order, on one core or on whichever is free.
class RknpuSubmission : public Submission {
 public:
  RknpuSubmission(std::shared_ptr<RknpuFile> file, int core, const Submit& submit,
                  const VerifiedJobs& verified, uint64_t proof)
      : kicks_(std::move(file), submit, verified), proof_(proof) {
    uint32_t total = 0;
    for (size_t job = 0; job < submit.jobs.size(); ++job) {
      const auto count = static_cast<uint32_t>(submit.jobs[job].tasks.size());
      const std::vector<RknpuKick> kicks = kicks_.plan(total, count);
      for (const RknpuKick& kick : kicks) {
        // Registers of a core that ran something else in between are no one's.
        if (kicks.size() > 1 || submit.jobs.size() > 1) {
          verify_alone(submit, job, kick.first - total, kick.count);
        }
        submits_.push_back(kicks_.make_submit(kick, core));
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
      const int64_t ns = kicks_.run(submit);
      is_told = is_told && ns != 0;
      hardware_ns += ns;
    }
    // A request submits and waits.
    if (is_told) note_waited(hardware_ns);
  }

 private:
  RknpuKicks kicks_;
  uint64_t proof_;
  std::vector<rknpu::Submit> submits_;
};

// The file of this process for `node`, opened when it is first needed.
std::shared_ptr<RknpuFile> shared_file(const std::string& node) {
  static std::mutex mutex;
  static std::map<std::pair<pid_t, std::string>, std::weak_ptr<RknpuFile>> files;
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<RknpuFile>& slot = files[{getpid(), node}];
  std::shared_ptr<RknpuFile> file = slot.lock();
  if (file == nullptr) {
    file = std::make_shared<RknpuFile>(node);
    slot = file;
  }
  return file;
}

// Streams take the listed cores in turn.
int next_core(const std::string& cores) {
  static std::atomic<size_t> turn{0};
  const std::vector<int> list = parse_cores(cores);
  return list.empty() ? -1 : list[turn++ % list.size()];
}

}  // namespace

RknpuFile::RknpuFile(const std::string& node) : file(node), version(file.version()) {
  if (version.name != kRknpuDriver) {
    throw DeviceError(node + ": its driver is " + version.text() +
                      ", not rknpu; choose another node or device=auto");
  }
  if (!version.at_least(0, 8) || version.at_least(0, 10)) {
    throw DeviceError(node + ": driver " + version.text() +
                      " is not supported; supported are 0.8.0 to 0.9.x");
  }
  lock();
}

// Released by the kernel with the last descriptor, also when the process is killed.
void RknpuFile::lock() const {
  int result;
  do {
    result = flock(file.descriptor(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno != EWOULDBLOCK) return;
  throw DeviceError(file.path() +
                    ": another process uses the NPU, and vendor kernels crash when two do; stop it "
                    "or share one process");
}

RknpuDevice::RknpuDevice(std::shared_ptr<RknpuFile> file, int core, std::string cores)
    : file_(std::move(file)), core_(core), cores_(std::move(cores)) {}

std::unique_ptr<Buffer> RknpuDevice::allocate(size_t size, BufferId) {
  return std::make_unique<RknpuBuffer>(file_, size, rknpu::kMemoryFlags);
}

std::shared_ptr<Buffer> RknpuDevice::constants(Span<const uint8_t> content, size_t size) {
  return file_->constants.get(
      content, size, [&]() { return allocate(size, BufferId::kConstants); },
      [](Buffer& buffer) { rknpu_buffer(buffer).synchronise(rknpu::kSyncToDevice); });
}

void RknpuDevice::sync_for_device(Buffer& buffer) {
  rknpu_buffer(buffer).synchronise(rknpu::kSyncToDevice);
}

void RknpuDevice::sync_for_cpu(Buffer& buffer) {
  rknpu_buffer(buffer).synchronise(rknpu::kSyncFromDevice);
}

std::unique_ptr<Submission> RknpuDevice::prepare(const Submit& submit) {
  const VerifiedJobs verified = verify_streams(submit);
  std::vector<int> cores = parse_cores(cores_);
  if (cores.empty()) cores = parse_cores("all");
  if (!uses_cores(submit) || cores.size() == 1) cores = {core_};
  const CorePlan plan = plan_cores(submit, verified, cores.size());
  const uint64_t proof = plan.only_mark();
  if (proof != kNoMark) {
    return std::make_unique<RknpuSubmission>(file_, core_, submit, verified, proof);
  }
  return make_rknpu_split(file_, cores, submit, verified, plan);
}

std::shared_ptr<Device> RknpuDevice::open_stream() {
  return make_rknpu_device(file_->file.path(), cores_);
}

std::shared_ptr<Device> make_rknpu_device(const std::string& node, const std::string& cores) {
  return std::make_shared<RknpuDevice>(shared_file(node), next_core(cores), cores);
}

}  // namespace rk3588
