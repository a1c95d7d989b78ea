// The vectorised inner loops of fp16 tasks, one table of functions per instruction set. All give
// identical results, those of core.cpp and dpu_element.cpp.
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
inline constexpr size_t kDepthwiseStep = 16;
// Of neighbouring pixels' numbers in a group: the square of a norm that none of them exceeds, and
// that over the square of a power of two that all numbers are multiples of; infinite if one is not
// finite.
struct HalfReach {
  float squares = 0.0f;
  float range = 0.0f;
  void add(HalfReach other) {
    squares = squares > other.squares ? squares : other.squares;
    range = range > other.range ? range : other.range;
  }
};

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

// Atoms of a group of input lanes: `surfaces` of a pixel, `pitch` bytes apart, of pixels that are
// `step` bytes apart.
struct HalfAtoms {
  const int8_t* first;
  ptrdiff_t pitch;
  size_t surfaces;
  ptrdiff_t step;
  size_t pixels;
};

// As doubles: values[p * stride + lane].
using HalfLoadKernel = HalfReach (*)(const HalfAtoms& atoms, double* values, size_t stride);

// As fp32.
using HalfWidenKernel = void (*)(const int8_t* atoms, size_t pixels, float* values);

// How a dense task's sums go over input channels and taps.
struct HalfDense {
  const ptrdiff_t* offsets;  // of the taps' pixels, in values
  size_t taps;
  size_t lanes;     // input channels of a group
  size_t channels;  // of a pixel, and of the weights [group][tap][lane][16]
  size_t used;      // channels behind them have no weight but 0
};

// sums[p * 16 + k]: for each group and tap the sum of inputs[p][lane] * weights, which must be
// exact in double precision, added in fp32. Kernels from `kernels` on get 0.
using HalfDenseKernel = void (*)(const HalfDense& dense, const double* const* inputs,
                                 const double* weights, size_t kernels, float* sums, int pixels);

// Depthwise: acc[p * 8 + c] is the sum over taps of taps[t][p * step + c] times weights[t * 8 + c],
// each added in fp32. Goes on to a multiple of kDepthwiseStep.
using HalfDepthwiseKernel = void (*)(const float* const* taps, size_t count, size_t step,
                                     const float* weights, float* acc, size_t pixels);

// BS, BN, EW and OUT_CVT of neighbouring pixels. What goes in: sums[p * stride + c], or, if there
// are none, the fp16 atoms at `main`. `ew`: atoms (only with ew_per_pixel). `out`: atoms.
using HalfStagesKernel = void (*)(const HalfStages& task, const HalfSurface& surface,
                                  const float* sums, size_t stride, const int8_t* main,
                                  const int8_t* ew, int8_t* out, size_t pixels);

struct HalfKernels {
  HalfLoadKernel load;
  HalfWidenKernel widen;
  HalfDenseKernel dense;
  HalfDepthwiseKernel depthwise;
  HalfStagesKernel stages;
};

// Defined where the compiler targets the architecture.
extern const HalfKernels kPortableHalfKernels;
extern const HalfKernels kAvx2HalfKernels;
extern const HalfKernels kAvx512HalfKernels;
}  // namespace rk3588::sim
