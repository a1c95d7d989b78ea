// The vectorised inner loops, one table of functions per instruction set. All give identical
// results.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/dpu.h"
#include "sim/half_kernels.h"
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
