#include "rknpu_device.h"

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "devices.h"
#include "rknpu_buffer.h"
#include "rknpu_uapi.h"
#include "run_log.h"
#include "stream_verifier.h"

namespace rk3588 {
namespace {

// What the vendor's runtime waits for one submit.
constexpr uint32_t kDefaultTimeoutMs = 6000;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr uint32_t kEnableDpu = 0x08;

RknpuBuffer& rknpu_buffer(Buffer& buffer) { return static_cast<RknpuBuffer&>(buffer); }

// Tasks that go to the hardware in one kick.
struct Kick {
  uint32_t first = 0;
  uint32_t count = 0;
};

// Chains of at most `limit` linked tasks, never cut in front of a task that reuses what the one
// before it left in CBUF: between two kicks another stream may use the core. Throws DeviceError.
std::vector<Kick> plan_kicks(const std::vector<VerifiedTask>& tasks, uint32_t limit) {
  std::vector<Kick> kicks;
  uint32_t first = 0;
  const auto total = static_cast<uint32_t>(tasks.size());
  while (first < total) {
    uint32_t end = first + 1;
    uint32_t cut = end < total && tasks[end].reuses_cbuf ? first : end;  // where it may end
    while (end < total && tasks[end - 1].links_to_next && end - first < limit) {
      ++end;
      if (end == total || !tasks[end].reuses_cbuf) cut = end;
    }
    const bool is_cut = end < total && tasks[end - 1].links_to_next;
    if (is_cut) end = cut;
    if (end <= first || tasks[first].reuses_cbuf) {
      throw StreamError("refused before it reached the NPU: task " + std::to_string(first) +
                        " reuses weights or data of a task that is not in its chain of at most " +
                        std::to_string(limit) + "; compile the model again");
    }
    kicks.push_back({first, end - first});
    first = end;
  }
  return kicks;
}

class RknpuSubmission : public Submission {
 public:
  RknpuSubmission(std::shared_ptr<RknpuFile> file, int core, const Submit& submit)
      : file_(std::move(file)),
        timeout_ms_(submit.timeout_ms != 0 ? submit.timeout_ms : kDefaultTimeoutMs) {
    const VerifiedJobs jobs = verify_streams(submit);
    std::vector<VerifiedTask> tasks;
    for (const auto& job : jobs) tasks.insert(tasks.end(), job.begin(), job.end());
    for (const VerifiedTask& task : tasks) targets_.push_back(task.target);
    const std::vector<Kick> kicks = plan_kicks(tasks, rknpu::kMaxChainTasks);
    write_table(submit, tasks);
    for (const Kick& kick : kicks) submits_.push_back(make_submit(kick, core));
  }

  Span<const uint64_t> task_targets() const override { return targets_; }

  void begin() override { file_->file.require_mine("SUBMIT"); }

  void run() override {
    const int64_t start = monotonic_ns();
    int64_t hardware_ns = 0;
    bool is_told = true;
    for (const rknpu::Submit& prepared : submits_) {
      rknpu::Submit submit = prepared;  // the driver writes into it
      const int64_t deadline = monotonic_ns() + timeout_ms_ * kNsPerMs;
      file_->file.require_mine("SUBMIT");
      const int number = file_->file.try_request(rknpu::kSubmit, &submit, deadline);
      if (number == 0) {
        is_told = is_told && submit.hw_elapse_time > 0;
        hardware_ns += submit.hw_elapse_time;
        continue;
      }
      if (number != ETIMEDOUT) file_->file.fail("SUBMIT", number);
      // Only a hint: the counter of a core that hangs is not reliable.
      const uint32_t done = std::min(submit.task_counter, prepared.task_number);
      throw DeviceError("rknpu " + file_->file.path() + ": no result after " +
                        std::to_string(timeout_ms_) +
                        " ms (option timeout_ms): the NPU hangs or is busy; the driver counted " +
                        std::to_string(prepared.task_start + done) + " of " +
                        std::to_string(targets_.size()) + " tasks");
    }
    // A request submits and waits. Drivers that do not measure leave the field as it was.
    if (is_told && hardware_ns <= monotonic_ns() - start) note_waited(hardware_ns);
  }

 private:
  void write_table(const Submit& submit, const std::vector<VerifiedTask>& verified) {
    table_ = std::make_unique<RknpuBuffer>(file_, verified.size() * sizeof(rknpu::Task),
                                           rknpu::kTaskTableFlags);
    uint8_t* place = table_->bytes().data();
    uint32_t index = 0;
    for (const JobRef& job : submit.jobs) {
      for (const TaskRef& source : job.tasks) {
        rknpu::Task task;
        task.op_idx = index;
        task.enable_mask = verified[index].enable_mask;
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

  rknpu::Submit make_submit(const Kick& kick, int core) const {
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

  std::shared_ptr<RknpuFile> file_;
  uint32_t timeout_ms_;
  std::unique_ptr<RknpuBuffer> table_;
  std::vector<rknpu::Submit> submits_;
  std::vector<uint64_t> targets_;
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
  return file_->constants.get(content, size,
                              [&]() { return allocate(size, BufferId::kConstants); });
}

void RknpuDevice::sync_for_device(Buffer& buffer) {
  rknpu_buffer(buffer).synchronise(rknpu::kSyncToDevice);
}

void RknpuDevice::sync_for_cpu(Buffer& buffer) {
  rknpu_buffer(buffer).synchronise(rknpu::kSyncFromDevice);
}

std::unique_ptr<Submission> RknpuDevice::prepare(const Submit& submit) {
  return std::make_unique<RknpuSubmission>(file_, core_, submit);
}

std::shared_ptr<Device> RknpuDevice::open_stream() {
  return make_rknpu_device(file_->file.path(), cores_);
}

std::shared_ptr<Device> make_rknpu_device(const std::string& node, const std::string& cores) {
  return std::make_shared<RknpuDevice>(shared_file(node), next_core(cores), cores);
}

}  // namespace rk3588
