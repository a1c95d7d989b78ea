// Devices without a driver. The simulator as a device: owns memory and address space, shows the
// simulator only what a submit lists.
#include <unistd.h>

#include <algorithm>
#include <map>

#include "host/devices.h"
#include "host/host_memory.h"
#include "host/stream_verifier.h"
#include "sim/simulator.h"

namespace rk3588 {
namespace {

constexpr const char* kBufferNames[kBufferCount] = {"regcmd", "constants", "scratch", "input",
                                                    "output"};

// A layer rarely has work for more, whatever the interpreter was told.
constexpr unsigned kMostThreads = 16;

// Simulators (and their threads) that are idle. One per concurrent submit, made when needed:
// nothing starts before the first invoke, so loading the library and forking are free of threads.
class SimulatorPool {
 public:
  ~SimulatorPool() { forget_after_fork(); }

  // One of a chip with so many threads (0: as many as the machine has).
  std::unique_ptr<sim::Simulator> take(const Chip& chip, unsigned threads) {
    const std::lock_guard<std::mutex> lock(mutex_);
    forget_after_fork();
    std::vector<std::unique_ptr<sim::Simulator>>& idle = idle_[{chip.name, threads}];
    if (idle.empty()) {
      sim::Settings settings;
      settings.chip = chip;
      settings.threads = threads;
      return std::make_unique<sim::Simulator>(settings);
    }
    std::unique_ptr<sim::Simulator> simulator = std::move(idle.back());
    idle.pop_back();
    return simulator;
  }

  void give_back(std::unique_ptr<sim::Simulator> simulator, const Chip& chip, unsigned threads) {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_[{chip.name, threads}].push_back(std::move(simulator));
  }

 private:
  // A forked child has no worker threads: destroying the simulators would wait for them for ever.
  void forget_after_fork() {
    if (owner_ == getpid()) return;
    for (auto& [kind, idle] : idle_) {
      for (auto& simulator : idle) static_cast<void>(simulator.release());
    }
    idle_.clear();
    owner_ = getpid();
  }

  std::mutex mutex_;
  pid_t owner_ = getpid();
  // By chip and threads.
  std::map<std::pair<std::string_view, unsigned>, std::vector<std::unique_ptr<sim::Simulator>>>
      idle_;
};

class SimDevice : public HostDevice {
 public:
  explicit SimDevice(const Chip& chip) : chip_(chip) {}

  std::string name() const override { return "simulator"; }
  const Chip& chip() const override { return chip_; }
  bool runs(const Chip&) const override { return true; }

 private:
  void run(const Submit& submit) override {
    std::vector<sim::Region> memory;
    memory.reserve(submit.inputs.size() + submit.outputs.size());
    for (const auto* buffers : {&submit.inputs, &submit.outputs}) {
      for (Buffer* buffer : *buffers) memory.push_back(region(*buffer, submit));
    }
    std::vector<sim::Job> jobs;
    for (const JobRef& job : submit.jobs) jobs.push_back(sim_job(job, 0, job.tasks.size()));
    const unsigned threads = std::min(submit.threads, kMostThreads);
    std::unique_ptr<sim::Simulator> simulator = pool_.take(*submit.chip, threads);
    try {
      simulator->run(memory, jobs);
    } catch (const sim::Fault& fault) {
      pool_.give_back(std::move(simulator), *submit.chip, threads);
      throw DeviceFault(std::string("simulator: ") + fault.what(), fault);
    }
    pool_.give_back(std::move(simulator), *submit.chip, threads);
  }

  static sim::Region region(Buffer& buffer, const Submit& submit) {
    const auto& host = static_cast<const HostBuffer&>(buffer);
    // Programs bring no content for these: whatever a task reads, one before it must have written.
    const bool is_empty = !submit.outputs_hold_content &&
                          (host.id() == BufferId::kScratch || host.id() == BufferId::kOutput);
    return {kBufferNames[static_cast<size_t>(host.id())], buffer.dma_address(), buffer.bytes(),
            is_empty ? 0 : UINT64_MAX};
  }

  const Chip& chip_;
  SimulatorPool pool_;
};

// Accepts every submit and computes nothing: measures the host's share of an invoke.
class NullDevice : public HostDevice {
 public:
  std::string name() const override { return "null"; }
  bool computes() const override { return false; }
  bool runs(const Chip&) const override { return true; }

 private:
  void run(const Submit&) override {}
};

}  // namespace

std::shared_ptr<Device> make_simulator_device(const Chip& chip) {
  return std::make_shared<SimDevice>(chip);
}

std::shared_ptr<Device> make_null_device() { return std::make_shared<NullDevice>(); }

}  // namespace rk3588
