// What stands behind a dispatch library's handles: a device for one compiled model, its buffers,
// and the programs that it runs.
//
// A program's bindings are numbered by the ports of its operator: tensor i of the inputs is the
// operator's input i (delegate/compile/aot/dispatch_form.py). A port that no binding names is not
// read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "host/run_stats.h"
#include "litert_abi.h"
#include "loader/program_home.h"
#include "program/executable.h"

namespace rk3588::litert {

// A buffer that is locked, and where it lies.
struct HeldBuffer {
  void* buffer;
  uint8_t* memory;
};

// What LiteRT holds by handle; that of one that is gone is never another's. Thread-safe.
template <typename Held>
class Handles {
 public:
  uint64_t add(Held held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    known_[++last_] = std::move(held);
    return last_;
  }
  // nullptr: it is gone, or never was.
  Held find(uint64_t handle) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(handle);
    return found == known_.end() ? nullptr : found->second;
  }
  // The same, and it is gone then.
  Held take(uint64_t handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(handle);
    if (found == known_.end()) return nullptr;
    Held held = std::move(found->second);
    known_.erase(found);
    return held;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, Held> known_;
  uint64_t last_ = 0;
};

class DispatchDevice {
 public:
  // Throws DeviceError.
  DispatchDevice(const RuntimeContext& runtime, const NativeOptions& options);

  const RuntimeContext& runtime() const { return runtime_; }
  ProgramHome& home() { return home_; }
  const RunSettings& settings() const { return settings_; }
  const std::shared_ptr<GraphClock>& clock() const { return clock_; }
  // True for the first program: it counts the model's inferences.
  bool take_first() { return !std::exchange(has_first_, true); }

  // Both throw StatusError. The buffer stays the runtime's.
  uint64_t register_buffer(void* buffer);
  void* buffer(uint64_t handle) const;
  void unregister_buffer(uint64_t handle);

 private:
  const RuntimeContext& runtime_;
  ProgramHome home_;
  RunSettings settings_;
  std::shared_ptr<GraphClock> clock_ = std::make_shared<GraphClock>();
  bool has_first_ = false;
  Handles<void*> buffers_;
};

class Invocation {
 public:
  // Verifies the program and uploads it. Throws.
  Invocation(std::shared_ptr<DispatchDevice> device, Span<const uint8_t> program, size_t inputs,
             size_t outputs);

  enum class Side { kInput, kOutput };
  // Returns the bytes of a port's tensor. Throws StatusError if that is not the program's.
  size_t bytes_of(Side side, int32_t port, const RankedTensorType& type) const;
  void attach(Side side, int32_t port, uint64_t handle);
  void detach(Side side, int32_t port, uint64_t handle);
  const RuntimeContext& runtime() const { return device_->runtime(); }
  // Throws.
  void invoke();

 private:
  struct Port {
    const Binding* binding = nullptr;  // nullptr: the program does not read it
    size_t place = 0;                  // among the program's tensors
    void* buffer = nullptr;
  };
  std::vector<Port>& ports(Side side) { return side == Side::kInput ? inputs_ : outputs_; }
  Port& port(Side side, int32_t index);
  static std::vector<Port> bind(const std::vector<Binding>& bindings, size_t count,
                                const char* what);

  // Whatever LiteRT destroys first.
  std::shared_ptr<DispatchDevice> device_;
  std::unique_ptr<Executable> executable_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  // Of a run; a run allocates nothing.
  std::vector<const uint8_t*> input_data_;
  std::vector<uint8_t*> output_data_;
  std::vector<HeldBuffer> held_;
  std::mutex mutex_;
  KernelRuns runs_;
};

}  // namespace rk3588::litert
