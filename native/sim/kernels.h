// The vectorised inner loops, one table of functions per instruction set. All give identical
// results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "sim/dpu.h"
#include "sim/simulator.h"

namespace rk3588::sim {

// Pixels that a dense kernel computes at once, at most.
inline constexpr int kTilePixels = 14;
// Output channels of a dense kernel.
inline constexpr int kTileChannels = 32;
// Channels of a surface.
inline constexpr int kLanes = 16;

// BS, BN, EW and OUT_CVT of 16 channels, as numbers in double precision: every intermediate value
// is an integer (or an integer times a power of two) below 2^53, so that all of it is exact.
struct SurfaceStages {
  alignas(64) double bs_alu[kLanes];
  alignas(64) double bs_ge[kLanes];  // factor of values >= 0: multiplier * 2^-shift
  alignas(64) double bs_lt[kLanes];  // factor of values < 0
  alignas(64) double bn_ge[kLanes];  // the same of BN; with a summand the multiplier alone
  alignas(64) double bn_lt[kLanes];
  alignas(64) double bn_alu[kLanes];
  alignas(64) double ow[kLanes];
  alignas(64) double ew[kLanes];  // converted operand that does not depend on the pixel
  alignas(64) double out_scale[kLanes];
  alignas(64) double out_offset[kLanes];
  alignas(64) int32_t out_offset_int[kLanes];
};

// Settings that all surfaces of a task share.
struct TaskStages {
  double truncate = 1.0;  // 2^-CLIP_TRUNCATE
  bool has_truncate = false;
  bool has_ow = false;
  bool has_bs_alu = false;
  bool has_bs_mul = false;
  bool bs_split = false;  // bs_lt differs from bs_ge
  bool has_bn_alu = false;
  bool has_bn_mul = false;
  bool bn_split = false;
  // With BN's multiplier and summand: 2^-shift of sums >= 0 and < 0.
  double bn_shift_ge = 1.0;
  double bn_shift_lt = 1.0;
  // Where values can leave 32 bits, or ReLU or RELUX is on; elsewhere limiting would change
  // nothing.
  bool limit_accumulator = true;
  bool limit_bs_alu = true;
  bool limit_bs = true;
  bool limit_bn = true;
  bool limit_ew_operand = true;
  bool limit_ew_operation = true;
  bool limit_ew = true;
  bool limit_out = true;
  // Limits of ReLU and RELUX; the int32 range where there are none.
  double bs_low, bs_high, bn_low, bn_high, ew_low, ew_high;
  EwOperation ew = EwOperation::kOff;
  bool ew_per_pixel = false;
  bool ew_convert = false;
  bool ew_convert_away = false;
  bool ew_prelu = false;
  double ew_offset = 0.0;
  double ew_scale = 1.0;   // scale * 2^-shift
  double ew_mul_ge = 1.0;  // 2^-shift of products >= 0
  double ew_mul_lt = 1.0;
  bool out_away = false;
};

// Accumulators of `pixels` pixels and 16 channels to bytes. `acc` has `acc_stride` values per
// pixel, `sums` one sum of inputs per pixel (only read with has_ow), `ew` 16 bytes per pixel (only
// with ew_per_pixel), `out` 16 bytes per pixel.
using StagesKernel = void (*)(const TaskStages& task, const SurfaceStages& surface,
                              const int32_t* acc, size_t acc_stride, const int32_t* sums,
                              const int8_t* ew, int8_t* out, size_t pixels);

// Dot products of `pixels` <= kTilePixels neighbouring pixels with 32 kernels: for each of `blocks`
// K blocks of 16 input channels, pixel p's channels lie at input + offsets[b] + p * 16. `weights`
// is packed by the same table's `pack`. `sums[p]` must hold the sum of all inputs of pixel p.
// Writes acc[p * 32 + kernel].
using DenseKernel = void (*)(const int8_t* input, const ptrdiff_t* offsets, size_t blocks,
                             const uint8_t* weights, const int32_t* sums, int32_t* acc, int pixels);

// A DenseKernel of one for tiles of `kPixels` and one for a pixel of the rest.
using DenseTile = void (*)(const int8_t* input, const ptrdiff_t* offsets, size_t blocks,
                           const uint8_t* weights, int32_t* acc);
template <int kPixels, DenseTile kTile, DenseTile kOne>
void dense_tiles(const int8_t* input, const ptrdiff_t* offsets, size_t blocks,
                 const uint8_t* weights, const int32_t*, int32_t* acc, int pixels) {
  int p = 0;
  for (; p + kPixels <= pixels; p += kPixels) {
    kTile(input + p * kLanes, offsets, blocks, weights, acc + p * kTileChannels);
  }
  for (; p < pixels; ++p) {
    kOne(input + p * kLanes, offsets, blocks, weights, acc + p * kTileChannels);
  }
}

// One K block: `rows` <= 32 kernels with 16 weights each, `row_stride` bytes apart, to the kernel's
// order. Kernels from `rows` on become zero.
using PackKernel = void (*)(const int8_t* weights, size_t row_stride, int rows, uint8_t* packed);

// Packs to [16 / kGroup][32 kernels][kGroup input channels] of Number.
template <typename Number, int kGroup>
void pack_groups(const int8_t* weights, size_t row_stride, int rows, uint8_t* packed) {
  auto* out = reinterpret_cast<Number*>(packed);
  for (int i = 0; i < kLanes; i += kGroup) {
    for (int o = 0; o < kTileChannels; ++o, out += kGroup) {
      for (int k = 0; k < kGroup; ++k) {
        out[k] = o < rows ? weights[o * row_stride + i + k] : Number{0};
      }
    }
  }
}

// Sums the 16 * surfaces channels of each of `pixels` neighbouring pixels.
using SumKernel = void (*)(const int8_t* input, size_t surface_pitch, size_t surfaces,
                           size_t pixels, int32_t* sums);

inline int32_t sum_pixel(const int8_t* input, size_t surface_pitch, size_t surfaces) {
  int32_t sum = 0;
  for (size_t s = 0; s < surfaces; ++s) {
    for (int c = 0; c < kLanes; ++c) sum += input[s * surface_pitch + c];
  }
  return sum;
}

// Depthwise: acc[p * 16 + c] = sum over taps of input[offsets[t] + p * 16 + c] * weights[t * 16 +
// c].
using DepthwiseKernel = void (*)(const int8_t* input, const ptrdiff_t* offsets, size_t taps,
                                 const int16_t* weights, int32_t* acc, size_t pixels);

// Those of fp16 tasks give the results of core.cpp and dpu_element.cpp.

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

struct Kernels {
  StagesKernel stages;
  DenseKernel dense;
  PackKernel pack;
  size_t packed_block_bytes;  // what `pack` writes
  SumKernel sum;
  DepthwiseKernel depthwise;
  const HalfKernels* half;  // of fp16 tasks
};

// The table of an instruction set that is_available(); kAuto is the best one.
const Kernels& kernels_for(Isa isa);
bool is_available(Isa isa);

// Defined where the compiler targets the architecture.
extern const Kernels kPortableKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;
extern const Kernels kNeonDotKernels;

}  // namespace rk3588::sim
