// Devices without a driver, whose memory is plain host memory. The simulator as a device: owns
// memory and address space, shows the simulator only what a submit lists.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "host/devices.h"
#include "host/shared_constants.h"
#include "host/stream_verifier.h"
#include "sim/simulator.h"

namespace rk3588 {
namespace {

// A 32-bit device address space with an unmapped page behind every buffer, so that a program that
// runs past a buffer's end meets nothing instead of its neighbour.
class AddressSpace {
 public:
  // Throws DeviceError when no gap is large enough.
  uint64_t reserve(size_t size) {
    const uint64_t need = size + kDevicePageBytes;
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t address = kFirst;
    for (const auto& [begin, bytes] : used_) {
      if (begin - address >= need) break;
      address = begin + bytes;
    }
    if (address + need > kEnd) throw DeviceError("device address space of 32 bits is exhausted");
    used_[address] = need;
    return address;
  }

  void release(uint64_t address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    used_.erase(address);
  }

 private:
  static constexpr uint64_t kFirst = 0x10000000;  // not 0, so that a missing relocation is found
  static constexpr uint64_t kEnd = uint64_t{1} << 32;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> used_;
};

// Page-aligned zeroed memory; takes up no physical memory before it is touched.
class HostMemory {
 public:
  explicit HostMemory(size_t size) : size_(size), mapped_(whole_pages(size)) {
    void* memory =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw DeviceError("out of memory: cannot allocate " + std::to_string(size) + " bytes");
    }
    memory_ = static_cast<uint8_t*>(memory);
  }
  ~HostMemory() { munmap(memory_, mapped_); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  Span<uint8_t> bytes() { return {memory_, size_}; }

 private:
  size_t size_;
  size_t mapped_;
  uint8_t* memory_ = nullptr;
};

// Constants of all simulators and null devices of the process; each has them at an address of its
// own.
std::shared_ptr<HostMemory> shared_host_constants(Span<const uint8_t> content, size_t size,
                                                  Spend spend) {
  static SharedConstants<HostMemory> known;
  return known.get(content, size, spend, [&]() { return std::make_shared<HostMemory>(size); });
}

class HostBuffer : public Buffer {
 public:
  HostBuffer(std::shared_ptr<AddressSpace> space, size_t size, BufferId id)
      : HostBuffer(std::move(space), std::make_shared<HostMemory>(size), id) {}
  // `memory`: HostMemory or SharedMemory.
  template <typename Memory>
  HostBuffer(std::shared_ptr<AddressSpace> space, std::shared_ptr<Memory> memory, BufferId id)
      : space_(std::move(space)),
        bytes_(memory->bytes()),
        memory_(std::move(memory)),
        id_(id),
        address_(space_->reserve(whole_pages(bytes_.size()))) {}
  ~HostBuffer() override { space_->release(address_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  uint64_t dma_address() const override { return address_; }
  Span<uint8_t> bytes() override { return bytes_; }
  bool is_zeroed() const override { return true; }
  BufferId id() const { return id_; }

 private:
  std::shared_ptr<AddressSpace> space_;
  Span<uint8_t> bytes_;
  std::shared_ptr<void> memory_;
  BufferId id_;
  uint64_t address_;
};

// A device whose memory this is: nothing needs to be synchronised, nor made ready.
class HostDevice : public Device {
 public:
  std::unique_ptr<Buffer> allocate(size_t size, BufferId id) override {
    return std::make_unique<HostBuffer>(space_, size, id);
  }
  std::shared_ptr<Buffer> constants(Span<const uint8_t> content, size_t size,
                                    Spend spend) override {
    return std::make_shared<HostBuffer>(space_, shared_host_constants(content, size, spend),
                                        BufferId::kConstants);
  }
  std::shared_ptr<Buffer> adopt(const std::shared_ptr<SharedMemory>& memory, BufferId id) override {
    return std::make_shared<HostBuffer>(space_, memory, id);
  }
  void sync_for_device(Buffer&) override {}
  void sync_for_cpu(Buffer&) override {}
  std::unique_ptr<Submission> prepare(const Submit& submit) override {
    return std::make_unique<HostSubmission>(*this, submit);
  }

 private:
  class HostSubmission : public Submission {
   public:
    HostSubmission(HostDevice& device, const Submit& submit) : device_(device), submit_(submit) {}
    int64_t run() override {
      device_.run(submit_);
      return 0;
    }

   private:
    HostDevice& device_;
    Submit submit_;
  };

  // Runs everything and returns when it is done; throws DeviceError. Thread-safe.
  virtual void run(const Submit& submit) = 0;

  std::shared_ptr<AddressSpace> space_ = std::make_shared<AddressSpace>();
};

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
