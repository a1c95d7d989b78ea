// How a family of chips reads its registers: what differs between chips beyond numbers.
#pragma once

#include "sim/pc.h"
#include "sim/task.h"

namespace rk3588::sim {

// The functions read and check registers; they throw Fault.
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
