// One decoded task with host pointers: what the plain and the vectorised path execute.
#pragma once

#include <memory>

#include "sim/core.h"
#include "sim/pc.h"
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

// How a family of chips reads its registers: what differs between chips beyond numbers. The
// functions read and check registers; they throw Fault.
struct Decoder {
  // The stages of the DPU, and what its readers fetch. Numbers of stages that lie in memory are
  // fetched.
  RdmaConfig (*dpu)(uint32_t enable_mask, const RegisterFile& registers, const Memory& memory,
                    const Chip& chip, const Position& where, DpuConfig* config);
  CnaConfig (*cna)(const BlockView& view, const Chip& chip);
  CoreConfig (*core)(const BlockView& view, const CnaConfig& cna, const DpuConfig& dpu);
  // Called with a planned convolution; nullptr: its weights are as CnaConfig describes them.
  void (*reorder_weights)(const Position& where, TaskPlan* plan);
};

// Reads the registers of RK3588.
extern const Decoder kBaseDecoder;

}  // namespace rk3588::sim
