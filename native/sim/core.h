// CORE: the MAC array and its accumulator.
#pragma once

#include "sim/cna.h"
#include "sim/dpu.h"

namespace rk3588::sim {

// Products of int8 are at most 2^14; more of them than this could leave the int32 accumulator.
inline constexpr uint64_t kMaxProducts = (uint64_t{1} << 31) / (128 * 128) - 1;

struct CoreConfig {
  bool sums_inputs = false;  // QD_EN: the window's inputs are summed for the OW term
  uint32_t truncate = 0;
  Ties ties = Ties::kAway;  // of that shift
};

// Reads and checks the registers against CNA and DPU; throws Fault.
CoreConfig decode_core(const BlockView& view, const CnaConfig& cna, const DpuConfig& dpu);

// The accumulator of one output element and the sum of the inputs it saw.
struct Accumulated {
  int32_t products = 0;
  int32_t inputs = 0;
};

// One output element, as the documentation describes it: the window's products over all programmed
// channels, padding included. `feature` and `weights` point at the first byte of each.
Accumulated accumulate(const CnaConfig& cna, const int8_t* feature, const int8_t* weights,
                       uint32_t channel, uint32_t y, uint32_t x);
// The same for fp16: the products of up to 32 input channels are summed exactly,
// rounded once to fp32, and accumulated in fp32 in the order of the weights.
float accumulate_float(const CnaConfig& cna, const int8_t* feature, const int8_t* weights,
                       uint32_t channel, uint32_t y, uint32_t x);

// The exact sum of `count` products of fp16, rounded once to fp32; b's numbers are b_step apart.
float exact_dot(const uint16_t* a, const uint16_t* b, size_t b_step, size_t count);

// CLIP_TRUNCATE: what leaves the accumulator, `ow` times the sum of the inputs included.
int32_t finish_accumulator(const CoreConfig& core, const Accumulated& sum, int16_t ow);

}  // namespace rk3588::sim
