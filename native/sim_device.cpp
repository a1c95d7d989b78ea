// The simulator as a device: owns memory and address space, shows the simulator only what a submit
// lists.
#include <unistd.h>

#include "device_fault.h"
#include "devices.h"
#include "host_memory.h"
#include "sim/simulator.h"

namespace rk3588 {
namespace {

const char* buffer_name(BufferId id) {
  switch (id) {
    case BufferId::kRegcmd:
      return "regcmd";
    case BufferId::kConstants:
      return "constants";
    case BufferId::kScratch:
      return "scratch";
    case BufferId::kInput:
      return "input";
    case BufferId::kOutput:
      return "output";
  }
  return "buffer";
}

// Simulators (and their threads) that are idle. One per concurrent submit, made when needed:
// nothing starts before the first invoke, so loading the library and forking are free of threads.
class SimulatorPool {
 public:
  ~SimulatorPool() { forget_after_fork(); }

  std::unique_ptr<sim::Simulator> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    forget_after_fork();
    if (idle_.empty()) return std::make_unique<sim::Simulator>();
    std::unique_ptr<sim::Simulator> simulator = std::move(idle_.back());
    idle_.pop_back();
    return simulator;
  }

  void give_back(std::unique_ptr<sim::Simulator> simulator) {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(simulator));
  }

 private:
  // A forked child has no worker threads: destroying the simulators would wait for them for ever.
  void forget_after_fork() {
    if (owner_ == getpid()) return;
    for (auto& simulator : idle_) static_cast<void>(simulator.release());
    idle_.clear();
    owner_ = getpid();
  }

  std::mutex mutex_;
  pid_t owner_ = getpid();
  std::vector<std::unique_ptr<sim::Simulator>> idle_;
};

class SimDevice : public Device {
 public:
  std::string name() const override { return "simulator"; }

  std::unique_ptr<Buffer> allocate(size_t size, BufferId id) override {
    return std::make_unique<HostBuffer>(space_, size, id);
  }

  void sync_for_device(Buffer&) override {}
  void sync_for_cpu(Buffer&) override {}

  void submit(const Submit& submit) override {
    std::vector<sim::Region> memory;
    memory.reserve(submit.inputs.size() + submit.outputs.size());
    for (const auto* buffers : {&submit.inputs, &submit.outputs}) {
      for (Buffer* buffer : *buffers) memory.push_back(region(*buffer));
    }
    std::vector<sim::Job> jobs;
    jobs.reserve(submit.jobs.size());
    for (const JobRef& job : submit.jobs) {
      sim::Job& target = jobs.emplace_back();
      target.tasks.reserve(job.tasks.size());
      for (const TaskRef& task : job.tasks) {
        target.tasks.push_back({task.regcmd, task.regcmd_count, task.layer});
      }
    }
    std::unique_ptr<sim::Simulator> simulator = pool_.take();
    try {
      simulator->run(memory, jobs);
    } catch (const sim::Fault& fault) {
      pool_.give_back(std::move(simulator));
      throw DeviceFault(std::string("simulator: ") + fault.what(), fault.kind, fault.unit,
                        fault.reg, fault.task, fault.layer);
    }
    pool_.give_back(std::move(simulator));
  }

 private:
  static sim::Region region(Buffer& buffer) {
    const auto& host = static_cast<const HostBuffer&>(buffer);
    sim::Region region;
    region.name = buffer_name(host.id());
    region.address = buffer.dma_address();
    region.bytes = buffer.bytes();
    // Programs bring no content for these: whatever a task reads, one before it must have written.
    if (host.id() == BufferId::kScratch || host.id() == BufferId::kOutput) region.initial_bytes = 0;
    return region;
  }

  std::shared_ptr<AddressSpace> space_ = std::make_shared<AddressSpace>();
  SimulatorPool pool_;
};

}  // namespace

std::shared_ptr<Device> make_simulator_device() { return std::make_shared<SimDevice>(); }

}  // namespace rk3588
