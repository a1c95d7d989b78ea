// What stands behind a dispatch library's handles: a device for one compiled model, its buffers,
// and the programs that it runs.
//
// A program's bindings are numbered by the ports of its operator: tensor i of the inputs is the
// operator's input i (delegate/compile/aot/dispatch_form.py). A port that no binding names is not
// read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "guard.h"
#include "host/run_stats.h"
#include "litert_abi.h"
#include "loader/program_home.h"
#include "program/executable.h"
#include "tflite/delegate_kernel.h"
#include "tflite/tflite_abi.h"

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

// Buffers that the host reads and writes for as long as a run takes.
class LockedBuffers {
 public:
  // `held`: room for them.
  LockedBuffers(const RuntimeContext& runtime, std::vector<HeldBuffer>* held)
      : runtime_(runtime), held_(*held) {}
  ~LockedBuffers() {
    for (const HeldBuffer& one : held_) static_cast<void>(runtime_.unlock_buffer(one.buffer));
    held_.clear();
  }
  LockedBuffers(const LockedBuffers&) = delete;
  LockedBuffers& operator=(const LockedBuffers&) = delete;

  // One buffer may be at several ports; the runtime locks it once. Throws StatusError.
  uint8_t* lock(void* buffer, LockMode mode) {
    if (buffer == nullptr) throw StatusError(kInvalidArgument, "a tensor has no buffer attached");
    for (const HeldBuffer& one : held_) {
      if (one.buffer == buffer) return one.memory;
    }
    void* memory = nullptr;
    const Status status = runtime_.lock_buffer(buffer, &memory, mode);
    if (status != kOk || memory == nullptr) {
      throw StatusError(status == kOk ? kRuntimeFailure : status, "a buffer cannot be locked");
    }
    held_.push_back({buffer, static_cast<uint8_t*>(memory)});
    return held_.back().memory;
  }

 private:
  const RuntimeContext& runtime_;
  std::vector<HeldBuffer>& held_;
};

inline std::string shape_text(const RankedTensorType& type) {
  return rk3588::shape_text({type.dimensions, type.dimensions + type.rank()});
}

// Bytes of the elements that a tensor which no program reads may have, by the numbers of
// TfLiteType.
inline size_t element_bytes(int32_t type) {
  const std::pair<size_t, std::vector<int32_t>> all[] = {
      {1, {3, 6, 9}}, {2, {7, 10, 17, 19}}, {4, {1, 2, 16}}, {8, {4, 8, 11, 13}}, {16, {12}}};
  for (const auto& [bytes, types] : all) {
    if (std::find(types.begin(), types.end(), type) != types.end()) return bytes;
  }
  throw StatusError(kUnsupported, "tensors of type " + std::to_string(type) + " are not supported");
}

class DispatchDevice {
 public:
  // Throws DeviceError.
  DispatchDevice(const RuntimeContext& runtime, const NativeOptions& options)
      : runtime_(runtime), home_(options), settings_(home_.settings(0)) {
    home_.announce_simulator();
  }

  const RuntimeContext& runtime() const { return runtime_; }
  ProgramHome& home() { return home_; }
  const RunSettings& settings() const { return settings_; }
  const std::shared_ptr<GraphClock>& clock() const { return clock_; }
  // True for the first program: it counts the model's inferences.
  bool take_first() { return !std::exchange(has_first_, true); }

  // Both throw StatusError. The buffer stays the runtime's.
  uint64_t register_buffer(void* buffer) {
    if (buffer == nullptr) throw StatusError(kInvalidArgument, "no buffer was given");
    return buffers_.add(buffer);
  }
  void* buffer(uint64_t handle) const {
    void* found = buffers_.find(handle);
    if (found == nullptr) throw StatusError(kNotFound, "a buffer was never registered");
    return found;
  }
  void unregister_buffer(uint64_t handle) {
    if (buffers_.take(handle) == nullptr) {
      throw StatusError(kNotFound, "a buffer was never registered");
    }
  }

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
             size_t outputs)
      : device_(std::move(device)),
        executable_(std::make_unique<Executable>(program, device_->settings())),
        inputs_(bind(executable_->inputs(), inputs, "input")),
        outputs_(bind(executable_->outputs(), outputs, "output")),
        input_data_(executable_->inputs().size()),
        output_data_(executable_->outputs().size()),
        runs_(device_->clock(), device_->take_first()) {
    held_.reserve(inputs + outputs);
    for (const Port& port : outputs_) {
      if (port.binding == nullptr) {
        throw StatusError(kInvalidArgument,
                          "the program does not write all of the operator's "
                          "outputs: it is another operator's");
      }
    }
    runs_.counters = executable_->counters();
    device_->home().log(LogLevel::kInfo, device_->home().device_name() + ": program " +
                                             executable_->name() + " is ready");
  }

  enum class Side { kInput, kOutput };
  // Returns the bytes of a port's tensor. Throws StatusError if that is not the program's.
  size_t bytes_of(Side side, int32_t index, const RankedTensorType& type) const {
    const Port& found = const_cast<Invocation*>(this)->port(side, index);
    const size_t rank = type.rank();
    if (type.has_strides() || rank > kMaxRank) {
      throw StatusError(kUnsupported, "tensors with strides are not supported");
    }
    if (found.binding == nullptr) {
      // Nobody reads it, and the runtime gives it a buffer all the same.
      size_t bytes = element_bytes(type.element);
      for (size_t i = 0; i < rank; ++i) bytes *= static_cast<size_t>(type.dimensions[i]);
      return bytes;
    }
    const Binding& binding = *found.binding;
    const std::vector<int32_t> shape(type.dimensions, type.dimensions + rank);
    if (type.element != tflite::type_of(binding.element) || shape != binding.shape) {
      throw StatusError(kInvalidArgument,
                        "tensor " + binding.name + " was compiled as " +
                            std::string(facts(binding.element).name) + " " +
                            rk3588::shape_text(binding.shape) + ", the model has type " +
                            std::to_string(type.element) + " " + shape_text(type) +
                            "; compile the model as it is, or use its original for other shapes");
    }
    return binding.host_bytes();
  }
  void attach(Side side, int32_t index, uint64_t handle) {
    void* buffer = device_->buffer(handle);
    Port& found = port(side, index);
    if (found.binding != nullptr) {
      const RuntimeContext& runtime = device_->runtime();
      const std::string name = "the buffer of tensor " + found.binding->name;
      const size_t wanted = found.binding->host_bytes();
      size_t bytes = 0;
      size_t tensor_bytes = 0;
      size_t offset = 0;
      if (runtime.get_buffer_size(buffer, &bytes) != kOk ||
          runtime.get_buffer_packed_size(buffer, &tensor_bytes) != kOk ||
          runtime.get_buffer_offset(buffer, &offset) != kOk) {
        throw StatusError(kRuntimeFailure, name + ": LiteRT does not tell its size");
      }
      if (offset != 0) {
        throw StatusError(kUnsupported, name + " begins behind its memory, which is not supported");
      }
      // A model that was resized has other tensors.
      if (tensor_bytes != wanted || bytes < wanted) {
        throw StatusError(kInvalidArgument, name + " is for " + std::to_string(tensor_bytes) +
                                                " bytes and has " + std::to_string(bytes) +
                                                ", it was compiled for " + std::to_string(wanted) +
                                                "; load the model with its new shapes");
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    found.buffer = buffer;
  }
  void detach(Side side, int32_t index, uint64_t handle) {
    Port& found = port(side, index);
    void* buffer = device_->buffer(handle);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (found.buffer == buffer) found.buffer = nullptr;
  }
  const RuntimeContext& runtime() const { return device_->runtime(); }
  // Throws.
  void invoke() {
    runs_.count([this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      LockedBuffers buffers(device_->runtime(), &held_);
      for (const Port& port : inputs_) {
        if (port.binding != nullptr) input_data_[port.place] = buffers.lock(port.buffer, kRead);
      }
      for (const Port& port : outputs_)
        output_data_[port.place] = buffers.lock(port.buffer, kWrite);
      runs_.counters->add_run(executable_->run(input_data_, output_data_));
    });
  }

 private:
  struct Port {
    const Binding* binding = nullptr;  // nullptr: the program does not read it
    size_t place = 0;                  // among the program's tensors
    void* buffer = nullptr;
  };
  std::vector<Port>& ports(Side side) { return side == Side::kInput ? inputs_ : outputs_; }
  Port& port(Side side, int32_t index) {
    std::vector<Port>& all = ports(side);
    if (index < 0 || static_cast<size_t>(index) >= all.size()) {
      throw StatusError(kInvalidArgument, "the operator has no such tensor");
    }
    return all[static_cast<size_t>(index)];
  }
  static std::vector<Port> bind(const std::vector<Binding>& bindings, size_t count,
                                const char* what) {
    std::vector<Port> ports(count);
    for (size_t i = 0; i < bindings.size(); ++i) {
      const int32_t number = bindings[i].tensor;
      if (number < 0 || static_cast<size_t>(number) >= count || ports[number].binding != nullptr) {
        throw StatusError(kInvalidArgument, "the operator has " + std::to_string(count) + " " +
                                                what + "s, its program has " + what + " " +
                                                std::to_string(number) + " of another operator");
      }
      ports[number].binding = &bindings[i];
      ports[number].place = i;
    }
    return ports;
  }

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
