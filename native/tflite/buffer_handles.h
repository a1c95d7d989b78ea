// Buffer handles of tensors: a handle is the descriptor of memory that others share, a dma-buf or a
// sealed memfd (host/shared_memory.h). A host gives it to a tensor with the runtime's
// SetBufferHandle and keeps it open while the tensor has it. Once it is closed, the next run or
// handle lets go of the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "host/shared_memory.h"
#include "program/executable.h"
#include "tflite/tflite_abi.h"

namespace rk3588 {

// Gives a delegate its functions for buffer handles. Descriptors are the process's, so all
// delegates have the same handles.
void take_buffer_handles(tflite::Delegate* delegate);

// Whether a tensor has a handle of one of these delegates.
bool has_buffer(const tflite::Tensor& tensor);

// The memory of such a tensor, mapped once as long as the descriptor is open. Throws DeviceError:
// also if it does not hold `bytes` bytes or cannot be written.
std::shared_ptr<SharedMemory> find_buffer(const tflite::Tensor& tensor, size_t bytes,
                                          SharedMemory::Access access);

// kRead: the tensor's own memory gets what its buffer holds; kWrite: the other way round. Throws
// DeviceError, std::runtime_error.
void copy_buffer(const tflite::Tensor& tensor, SharedMemory::Access access);

// The memory of a kernel's tensors that have buffer handles, during one run.
class EdgeMemory {
 public:
  // Notes an input (kRead) or output (kWrite) that has a handle. Returns where the host has its
  // values. Throws DeviceError, std::runtime_error.
  uint8_t* add(tflite::Context* context, tflite::Tensor* tensor, SharedMemory::Access access);
  // Runs with what was noted; results in buffers are newer than their tensors' own memory then.
  // Throws DeviceError.
  RunTimes run(Executable* executable, Span<const uint8_t* const> inputs,
               Span<uint8_t* const> outputs);

 private:
  struct Noted {
    tflite::Tensor* tensor;
    std::shared_ptr<SharedMemory> memory;
    SharedMemory::Access access;
  };
  // For the host's cache, around accesses to all but what the device takes in place.
  void synchronise(bool begins, const SharedEdges& in_place) const;

  std::vector<Noted> noted_;
};

}  // namespace rk3588
