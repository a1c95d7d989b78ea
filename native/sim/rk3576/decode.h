// RK3576: the same stages behind registers of its own (docs/registers_rk3576.md). A program is
// refused where it holds anything but the forms that are known of this chip.
#pragma once

#include "sim/decoder.h"

namespace rk3588::sim::rk3576 {

extern const RegisterTable kRegisterTable;

// These read and check the registers, as Decoder says. Convolutions of int8 cubes only.
RdmaConfig decode_dpu(uint32_t enable_mask, const RegisterFile& registers, const Memory& memory,
                      const Chip& chip, const Position& where, DpuConfig* config);
CnaConfig decode_cna(const BlockView& view, const Chip& chip);
CoreConfig decode_core(const BlockView& view, const CnaConfig& cna, const DpuConfig& dpu);
// Depthwise weights have two bytes, which are added. The first ones get the order of one-byte
// weights. The second ones must be the same for all taps of a channel and become its multiple of
// the sum of inputs: the same results.
void separate_pairs(const Position& where, TaskPlan* plan);

}  // namespace rk3588::sim::rk3576
