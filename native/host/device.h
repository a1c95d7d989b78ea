// The delegate kernel's view of a device: memory with device addresses, and one submit of
// jobs. Implemented by the simulator (native/host/sim_device.cpp), the null device and the kernel
// drivers (native/rocket, native/rknpu).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "chip/chip_gen.h"
#include "host/shared_constants.h"
#include "host/shared_memory.h"
#include "span.h"

namespace rk3588 {

// Index in a serialised Program; the same numbers as delegate/lower/task.py BufferId.
enum class BufferId : uint8_t {
  kRegcmd = 0,
  kConstants = 1,
  kScratch = 2,
  kInput = 3,
  kOutput = 4
};
inline constexpr size_t kBufferCount = 5;

// Thrown by devices; becomes an error status with this text at the C boundary.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A run that the device gave up for a reason outside of it. Its buffers may hold anything; repeated
// from the host's inputs it may succeed.
class InterruptedRun : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// Nanoseconds of CLOCK_MONOTONIC, the clock of all time-outs, too.
inline int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The unit in which devices have memory.
inline constexpr size_t kDevicePageBytes = 4096;

constexpr size_t whole_pages(size_t size) {
  return (size + kDevicePageBytes - 1) / kDevicePageBytes * kDevicePageBytes;
}

// Device memory. dma_address fits 32 bits (register fields are 32 bits wide) and is that of a page.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual uint64_t dma_address() const = 0;
  virtual Span<uint8_t> bytes() = 0;
  // Whether a new buffer is zero already: clearing it again would only take up memory.
  virtual bool is_zeroed() const { return false; }
};

// Where an address lies: in which of several buffers, and how far behind its begin.
struct AddressPlace {
  size_t index;
  size_t offset;
};

// `buffers`: pointers to them. Returns nothing if the address is in none of them.
template <typename Buffers>
std::optional<AddressPlace> find_address(const Buffers& buffers, uint64_t address) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const uint64_t begin = buffers[i]->dma_address();
    if (address < begin || address - begin >= buffers[i]->bytes().size()) continue;
    return AddressPlace{i, static_cast<size_t>(address - begin)};
  }
  return std::nullopt;
}

struct TaskRef {
  uint64_t regcmd;        // device address of the first word, 64-byte aligned
  uint32_t regcmd_count;  // 64-bit words, the tail included
  uint32_t enable_mask;
  std::string layer;  // for messages only
};

// Tasks that run in order, each after the one before it.
struct JobRef {
  std::vector<TaskRef> tasks;
};

struct Submit {
  std::vector<JobRef> jobs;
  const Chip* chip = &kRk3588;   // that the commands are for
  std::vector<Buffer*> inputs;   // read only by the device
  std::vector<Buffer*> outputs;  // written (and possibly read); never also in inputs
  // The host writes it before every run: one of `inputs`, or of `outputs` if results lie beside it.
  Buffer* host_input = nullptr;
  uint32_t timeout_ms = 0;  // 0: the device's default
  unsigned threads = 0;     // of a device that computes on the host; 0: its own choice
  // Whether outputs hold content that the device may read before it wrote there. Programs bring
  // none, so reading it is a mistake.
  bool outputs_hold_content = false;
};

// A submit that its device has checked and made ready: runs any number of times and allocates
// nothing. Not thread-safe.
class Submission {
 public:
  virtual ~Submission() = default;
  // Before the host writes to the buffers: throws DeviceError if it must not, because the process
  // was forked or an earlier run that timed out still goes on.
  virtual void begin() {}
  // Returns when the device is done: nanoseconds since the driver took the jobs, 0 where nobody
  // tells. Throws DeviceError.
  virtual int64_t run() = 0;
  // Device address of the first byte that each task writes, in order; empty if the device
  // itself says where a run stopped. Kernel drivers drop jobs without a word.
  virtual Span<const uint64_t> task_targets() const { return {}; }
};

class Device {
 public:
  virtual ~Device() = default;
  // "simulator", "null", "rocket /dev/accel/accel0", ...
  virtual std::string name() const = 0;
  // Name and version of the kernel driver, "rocket 0.0.0"; "" of a device without one.
  virtual std::string driver() const { return {}; }
  // Whether results are what the program says: not of a device that only takes submits.
  virtual bool computes() const { return true; }
  // The chip whose programs it runs: the board's; without a board, the one that was asked for.
  virtual const Chip& chip() const { return kRk3588; }
  virtual bool runs(const Chip& chip) const { return chip.name == this->chip().name; }
  virtual std::unique_ptr<Buffer> allocate(size_t size, BufferId id) = 0;
  // A buffer of `size` bytes that begins with `content`, zero behind it, which nobody writes
  // again: the same one for the same content where the device can share it. Synchronised for the
  // device already: others may be using it. `spend`: as of copy_spending().
  virtual std::shared_ptr<Buffer> constants(Span<const uint8_t> content, size_t size, Spend spend);
  // Memory that others share, as a buffer of this device, which has it at an address of its own.
  // nullptr: the device cannot reach it. Throws DeviceError.
  virtual std::shared_ptr<Buffer> adopt(const std::shared_ptr<SharedMemory>&, BufferId) {
    return nullptr;
  }
  virtual void sync_for_device(Buffer& buffer) = 0;
  virtual void sync_for_cpu(Buffer& buffer) = 0;
  // Checks `submit` and makes it ready. The buffers, with their final content of commands, must
  // outlive the result. Devices with a kernel driver verify every command here. Throws DeviceError.
  virtual std::unique_ptr<Submission> prepare(const Submit& submit) = 0;
  // A device like this one for an independent sequence of submits, as an interpreter makes them:
  // on another core where there are several. nullptr: this one serves all.
  virtual std::shared_ptr<Device> open_stream() { return nullptr; }
  // Devices that together reach every core that streams of this one may use; empty: this one does.
  virtual std::vector<std::shared_ptr<Device>> open_cores() { return {}; }
};

// A device that was opened to see whether it works, and a stream of it for every interpreter.
class DeviceStreams {
 public:
  explicit DeviceStreams(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::string name() const { return device_->name(); }
  const Chip& chip() const { return device_->chip(); }
  // The first call gives the device itself. Throws DeviceError. Thread-safe.
  std::shared_ptr<Device> next();

 private:
  std::shared_ptr<Device> device_;
  std::atomic<bool> is_taken_{false};
};

struct DeviceSettings {
  // "auto", "all" or a list of 0..2 such as "0,2": which cores the streams of this process use.
  std::string cores = "auto";
  // Refuse to simulate where "auto" finds no NPU.
  bool strict = false;
  // The chip that the board must have; "auto": any that programs can be compiled for. A device
  // without a board is taken for it.
  std::string chip = "auto";
};

// Throws DeviceError unless there is a chip of this name.
const Chip& chip_named(const std::string& name);

// "auto", "rocket", "rknpu", "simulator", "null" or the path of a device node. Throws DeviceError;
// a device that exists but fails is never replaced by another, nor one of another chip.
std::shared_ptr<Device> open_device(const std::string& name, const DeviceSettings& settings = {});

}  // namespace rk3588
