// The vectorised inner loops of fp16 tasks, one table of functions per instruction set. All give
// identical results, those of core_float.cpp and dpu_element.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "sim/dpu.h"
namespace rk3588::sim {

// Channels of a surface.
inline constexpr int kHalfLanes = 8;
// Kernels of a block: one weight group.
inline constexpr int kHalfKernels = 16;
// Pixels that a block computes at once, at most.
inline constexpr int kHalfPixels = 8;
// fp16 numbers are whole multiples of 2^-24.
inline constexpr double kHalfUnits = 16777216.0;

struct HalfRelu {
  bool is_on = false;
  float limit = std::numeric_limits<float>::infinity();
};

// BS or BN of a task, in fp32.
struct HalfXStage {
  bool has_alu = false;
  bool has_mul = false;
  bool prelu = false;
  HalfRelu relu;
};

// Settings that all surfaces of a task share.
struct HalfStages {
  HalfXStage bs;
  HalfXStage bn;
  EwOperation ew = EwOperation::kOff;
  bool ew_per_pixel = false;
  bool ew_prelu = false;
  HalfRelu ew_relu;
  float out_scale = 1.0f;
  float out_power = 1.0f;  // 2^-MINUS_EXP
};

// The operands of a surface's channels.
struct HalfSurface {
  alignas(32) float bs_alu[kHalfLanes];
  alignas(32) float bs_mul[kHalfLanes];
  alignas(32) float bn_mul[kHalfLanes];
  alignas(32) float bn_alu[kHalfLanes];
  alignas(32) float ew[kHalfLanes];
  alignas(16) uint16_t real[kHalfLanes];  // all bits of channels that there are
  alignas(16) uint16_t pend[kHalfLanes];  // what the others get
};

// `surfaces` atoms, `pitch` bytes apart, as doubles. Returns the sum of their squares; `bits` gets
// every binary place that a number has, in units of 2^-24 (without meaning if one is not finite).
using HalfLoadKernel = double (*)(const int8_t* atoms, ptrdiff_t pitch, size_t surfaces,
                                  double* values, uint64_t* bits);

// Adds to sums[p * 16 + k] the sum of inputs[p][i] * weights[i * 16 + k] over `count` values, as
// rounded once to fp32, wherever the sum in double precision, which is off by at most bounds[p] *
// norms[k], shows which number that is. Where it does not, sums stay, and bit k of unsure[p] is
// set. Returns all these bits, or-ed.
using HalfBlockKernel = uint32_t (*)(const double* const* inputs, const double* bounds,
                                     size_t count, const double* weights, const double* norms,
                                     float* sums, uint16_t* unsure, int pixels);

// Depthwise: acc[p * 8 + c] is the sum over taps of number c of the atom at input + offsets[t] +
// p * 16, times weights[t * 8 + c], each added in fp32.
using HalfDepthwiseKernel = void (*)(const int8_t* input, const ptrdiff_t* offsets, size_t taps,
                                     const float* weights, float* acc, size_t pixels);

// BS, BN, EW and OUT_CVT of neighbouring pixels. What goes in: sums[p * stride + c], or, if there
// are none, the fp16 atoms at `main`. `ew`: atoms (only with ew_per_pixel). `out`: atoms.
using HalfStagesKernel = void (*)(const HalfStages& task, const HalfSurface& surface,
                                  const float* sums, size_t stride, const int8_t* main,
                                  const int8_t* ew, int8_t* out, size_t pixels);

struct HalfKernels {
  HalfLoadKernel load;
  HalfBlockKernel block;
  HalfDepthwiseKernel depthwise;
  HalfStagesKernel stages;
};

// Defined where the compiler targets the architecture.
extern const HalfKernels kPortableHalfKernels;
extern const HalfKernels kAvx2HalfKernels;
extern const HalfKernels kAvx512HalfKernels;
}  // namespace rk3588::sim
