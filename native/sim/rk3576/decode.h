// RK3576: the same stages behind registers of its own (docs/registers_rk3576.md). A program is
// refused where it holds anything but the forms that are known of this chip.
#pragma once

#include "sim/register_file.h"
#include "sim/rounding.h"
#include "sim/task.h"

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

// Whole registers that are known as numbers.
inline constexpr uint32_t kLeast = 0x80000000;
inline constexpr uint32_t kLargest = 0x7fffffff;
inline constexpr uint32_t kScalarBytes = 16;  // of a number in memory for all channels
inline void require_word(const BlockView& v, uint16_t offset, uint32_t expected) {
  const uint32_t found = v.word(offset);
  if (found == expected) return;
  v.fault(fault::kUnsupportedFeature, offset, "is ", hex(found),
          " but every known program of this kind has ", hex(expected));
}

}  // namespace rk3588::sim::rk3576
