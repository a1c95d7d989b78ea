// The memory of a kernel's tensors that have buffer handles, during one run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "program/executable.h"
#include "tflite/tflite_abi.h"

namespace rk3588 {

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
