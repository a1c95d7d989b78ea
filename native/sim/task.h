// One decoded task with host pointers: what the plain and the vectorised path execute.
#pragma once

#include <memory>

#include "sim/core.h"
#include "sim/rdma.h"

namespace rk3588::sim {

struct TaskPlan {
  bool is_conv = false;
  CnaConfig cna;    // convolution only
  CoreConfig core;  // convolution only
  DpuConfig dpu;
  Operands operands;
  const int8_t* feature = nullptr;
  const int8_t* weights = nullptr;
  uint8_t* output = nullptr;
  // The ranges that CNA read, before expand_features() changed the cube.
  std::vector<AddressPattern> feature_reads;
  std::vector<AddressPattern> writes;
  uint64_t feature_bytes = 0;
  uint64_t cbuf_data_bytes = 0;
  std::unique_ptr<std::vector<int8_t>> expanded;
  std::unique_ptr<std::vector<int8_t>> weight_bytes;  // where memory has them in another order

  int8_t* output_atom(uint32_t surface, uint32_t y, uint32_t x) const {
    return reinterpret_cast<int8_t*>(output) + dpu.atom_offset(surface, y, x);
  }
};

}  // namespace rk3588::sim
