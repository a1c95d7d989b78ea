// The cores: run jobs on the simulator.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "chip/registers_gen.h"
#include "chip/registers_rk3576_gen.h"
#include "sim/register_file.h"
#include "sim/simulator.h"
#include "standin.h"

namespace standin {
namespace {

namespace sim = rk3588::sim;
namespace regs = rk3588::sim::regs;

constexpr size_t kCores = 3;
constexpr uint32_t kEnableDpu = 0x08;

Bo* find_address(const std::vector<BoPtr>& memory, uint64_t address) {
  for (const BoPtr& bo : memory) {
    if (address >= bo->address && address - bo->address < bo->size) return bo.get();
  }
  return nullptr;
}

uint64_t word_at(const std::vector<BoPtr>& memory, uint64_t address) {
  const Bo* bo = find_address(memory, address);
  if (bo == nullptr || bo->size - (address - bo->address) < sizeof(uint64_t)) return 0;
  uint64_t word;
  std::memcpy(&word, bo->device.data() + (address - bo->address), sizeof(word));
  return word;
}

// Flips an atom where the last task writes first.
void spoil(const Job& job) {
  const TaskRecord& task = job.tasks.back();
  for (uint32_t i = 0; i < task.regcmd_count; ++i) {
    const uint64_t word = word_at(job.memory, task.regcmd + uint64_t{i} * 8);
    const uint16_t place = sim::registers_of(*job.chip).dpu_target_offset;
    if (word >> 48 != regs::dpu::kTarget || (word & 0xffff) != place) continue;
    const uint64_t target = word >> 16 & 0xffffffff;
    Bo* bo = find_address(job.memory, target);
    if (bo == nullptr) return;
    for (size_t k = 0; k < 16; ++k) bo->device[target - bo->address + k] ^= 0x55;
  }
}

void note(const std::string& text) {
  const std::lock_guard<std::mutex> lock(kernel().mutex);
  violation(text);
}

// Rocket listens to the DPU's interrupt only, or the PPU's where a job says so.
bool completes(const Job& job, const TaskRecord& task) {
  const uint32_t mask = enable_mask(job.memory, task);
  return ((mask & kEnableDpu) != 0) != job.ppu_done;
}

void sleep_ms(unsigned ms) { usleep(ms * 1000u); }

// The end of a job, whose references the driver drops a little later.
void finish(const FilePtr& file, const std::shared_ptr<Job>& job) {
  for (const BoPtr& bo : job->outputs) --bo->running_jobs;
  file->held_until = Clock::now() + std::chrono::milliseconds(file->config.release_ms);
  for (const BoPtr& bo : job->memory) bo->held_until = file->held_until;
}

std::vector<sim::Region> regions(const std::vector<BoPtr>& bos) {
  std::vector<sim::Region> memory;
  for (const BoPtr& bo : bos) {
    sim::Region region;
    region.name = "bo " + std::to_string(bo->handle);
    region.address = bo->address;
    region.bytes = {bo->device.data(), bo->device.size()};
    memory.push_back(region);
  }
  return memory;
}

// Throws sim::Fault. All buffers of a file are in its address space, listed or not.
void run_tasks(const Job& job, const sim::Settings& settings, const sim::Job& work) {
  const rk3588::Span<const sim::Job> jobs(&work, 1);
  try {
    sim::Simulator(settings).run(regions(job.memory), jobs);
  } catch (const sim::Fault& fault) {
    if (fault.kind != "UnmappedAccess" || job.others.empty()) throw;
    std::vector<BoPtr> all = job.memory;
    all.insert(all.end(), job.others.begin(), job.others.end());
    sim::Simulator(settings).run(regions(all), jobs);
    note(std::string("a job reaches a buffer that it does not list: ") + fault.what());
  }
}

// Cores that cannot work at the same time: RK3588_SIM_BREAK=all:cores:disturb, which no simulator
// of one core can show.
class Neighbours {
 public:
  Neighbours() {
    const char* deviations = std::getenv("RK3588_SIM_BREAK");
    const std::string text = deviations == nullptr ? "" : deviations;
    is_broken_ = text.find("all:cores:disturb") != std::string::npos;
    hangs_ = text.find("all:cores:disturb_and_hang") != std::string::npos;
    others_ = running()++;
    if (is_broken_) sleep_ms(2);  // so that jobs handed over together meet
  }
  ~Neighbours() { --running(); }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  bool disturb() const { return is_broken_ && (others_ > 0 || running() > 1); }
  bool hangs() const { return hangs_; }

 private:
  static std::atomic<int>& running() {
    static std::atomic<int> count{0};
    return count;
  }
  bool is_broken_ = false;
  bool hangs_ = false;
  int others_ = 0;
};

// The banks of a CBUF that cores share: those of two jobs in flight must be others', or both
// compute something else. What the vendor's driver is handed for a core must have that core's.
class SharedBanks {
 public:
  SharedBanks(const Job& job, int core) {
    if (job.chip->cbuf_is_shared == 0) return;
    uint64_t next = 0;  // of a chain the NPU fetches what its links name
    for (const TaskRecord& task : job.tasks) {
      next = look_at(job, {job.chained && next != 0 ? next : task.regcmd, task.regcmd_count});
    }
    if (job.cores_clash) {
      halves_ = {true, false};
    } else if ((core == 0 || core == 1) && halves_[1 - static_cast<size_t>(core)]) {
      note("a job's banks of CBUF are not those of its core");
    }
    for (size_t half = 0; half < halves_.size(); ++half) {
      if (halves_[half] && in_use()[half]++ > 0) is_disturbed_ = true;
    }
    // So that jobs handed over together meet. Cores that clash do it however late the host
    // schedules the other's thread.
    for (int waited_ms = 0; waited_ms < (job.cores_clash ? kClashMs : 2); waited_ms += 2) {
      if (disturbs()) break;
      sleep_ms(2);
    }
  }
  ~SharedBanks() {
    for (size_t half = 0; half < halves_.size(); ++half) {
      if (halves_[half]) --in_use()[half];
    }
  }
  SharedBanks(const SharedBanks&) = delete;
  SharedBanks& operator=(const SharedBanks&) = delete;
  bool disturb() {
    if (disturbs()) note("two jobs at the same time in the same banks of CBUF");
    return is_disturbed_;
  }

 private:
  static constexpr int kClashMs = 1000;

  bool disturbs() {
    for (size_t half = 0; half < halves_.size(); ++half) {
      is_disturbed_ = is_disturbed_ || (halves_[half] && in_use()[half] > 1);
    }
    return is_disturbed_;
  }

  // Returns where the task links to, 0: nowhere.
  uint64_t look_at(const Job& job, const TaskRecord& task) {
    namespace cna = regs::rk3576::cna;
    uint64_t link = 0;
    for (uint32_t i = 0; i < task.regcmd_count; ++i) {
      const uint64_t word = word_at(job.memory, task.regcmd + uint64_t{i} * 8);
      const uint64_t target = word >> 48;
      const uint64_t offset = word & 0xffff;
      const auto value = static_cast<uint32_t>(word >> 16);
      if (target == regs::pc::kTarget && offset == regs::pc::base_address::kOffset) link = value;
      if (target != cna::kTarget || offset != cna::cbuf_con1::kOffset) continue;
      halves_[cna::cbuf_con1::kSecondCore.raw(value)] = true;
    }
    return link;
  }
  static std::array<std::atomic<int>, 2>& in_use() {
    static std::array<std::atomic<int>, 2> counts{};
    return counts;
  }
  std::array<bool, 2> halves_{};
  bool is_disturbed_ = false;
};

void core_thread() {
  const Inside inside;
  std::unique_lock<std::mutex> lock(kernel().mutex);
  for (;;) {
    FilePtr file;
    for (const auto& [descriptor, candidate] : kernel().files) {
      if (!candidate->queue.empty() && !candidate->running) {
        file = candidate;
        break;
      }
    }
    if (file == nullptr) {
      kernel().changed.wait(lock);
      continue;
    }
    const std::shared_ptr<Job> job = file->queue.front();
    file->running = true;
    lock.unlock();
    if (job->fate != Fate::kLost) execute(*job, file->config.hang_ms, -1);
    lock.lock();
    file->running = false;
    file->queue.pop_front();
    finish(file, job);
    kernel().changed.notify_all();
  }
}

}  // namespace

uint32_t enable_mask(const std::vector<BoPtr>& memory, const TaskRecord& task) {
  for (uint32_t i = task.regcmd_count; i-- > 0;) {
    const uint64_t word = word_at(memory, task.regcmd + uint64_t{i} * 8);
    if (word >> 48 == regs::enable::kTarget) return static_cast<uint32_t>(word >> 16);
  }
  return 0;
}

bool execute(const Job& job, unsigned hang_ms, int core) {
  const Neighbours neighbours;
  SharedBanks banks(job, core);
  size_t tasks = job.tasks.size();
  bool hangs = false;
  if (job.fate == Fate::kHang) {
    tasks = std::min(job.hang_at, tasks);
    hangs = true;
  }
  // One kick per task: each must end with the interrupt that the driver waits for. In a chain only
  // the last one counts.
  for (size_t i = job.chained ? tasks - 1 : 0; i < tasks && !hangs; ++i) {
    if (completes(job, job.tasks[i])) continue;
    note("task " + std::to_string(i) + " ends without the interrupt that the driver waits for");
    tasks = i + 1;
    hangs = true;
  }
  sim::Job work;
  for (size_t i = 0; i < tasks; ++i) {
    // Words are fetched in pairs.
    const uint32_t words = (job.tasks[i].regcmd_count + 1) / 2 * 2;
    work.tasks.push_back({job.tasks[i].regcmd, words, std::to_string(i)});
  }
  sim::Settings settings;
  settings.chip = *job.chip;
  settings.threads = 1;
  if (const char* deviations = std::getenv("RK3588_SIM_BREAK")) settings.deviations = deviations;
  // A chain cut short is run task by task: the simulator would follow the links.
  settings.chained = job.chained && tasks == job.tasks.size();
  try {
    if (!work.tasks.empty()) run_tasks(job, settings, work);
  } catch (const sim::Fault& fault) {
    note(std::string("the NPU would hang or fault: ") + fault.what());
    hangs = true;
  }
  const bool is_disturbed = banks.disturb() || neighbours.disturb();
  hangs = hangs || (is_disturbed && neighbours.hangs());
  if (job.fate == Fate::kGarbage || is_disturbed) spoil(job);
  if (hangs) sleep_ms(hang_ms);
  return !hangs;
}

void wake_cores() {
  // Only the first submit of a process starts threads; a forked child has none and may not submit.
  static const bool started = [] {
    for (size_t i = 0; i < kCores; ++i) std::thread(core_thread).detach();
    return true;
  }();
  static_cast<void>(started);
  kernel().changed.notify_all();
}

}  // namespace standin
