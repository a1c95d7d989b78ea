// Kernels for aarch64: NEON, which every such processor has, and dot products where there are.
#include "sim/kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstring>

namespace rk3588::sim {
namespace {

#define RK3588_TARGET
#define RK3588_DOT_TARGET __attribute__((target("arch=armv8.2-a+dotprod")))

constexpr int kWidth = 2;
using Vec = double __attribute__((vector_size(kWidth * sizeof(double))));

inline Vec from_i32(const int32_t* p) { return vcvtq_f64_s64(vmovl_s32(vld1_s32(p))); }
inline void from_i16(int16x8_t x, Vec* v) {
  const int32x4_t low = vmovl_s16(vget_low_s16(x));
  const int32x4_t high = vmovl_high_s16(x);
  v[0] = vcvtq_f64_s64(vmovl_s32(vget_low_s32(low)));
  v[1] = vcvtq_f64_s64(vmovl_high_s32(low));
  v[2] = vcvtq_f64_s64(vmovl_s32(vget_low_s32(high)));
  v[3] = vcvtq_f64_s64(vmovl_high_s32(high));
}
inline void from_i8(const int8_t* p, Vec* v) {
  const int8x16_t bytes = vld1q_s8(p);
  from_i16(vmovl_s8(vget_low_s8(bytes)), v);
  from_i16(vmovl_high_s8(bytes), v + 4);
}
inline Vec min(Vec a, Vec b) { return vminq_f64(a, b); }
inline Vec max(Vec a, Vec b) { return vmaxq_f64(a, b); }
inline Vec round(Vec a) { return vrndnq_f64(a); }
inline Vec trunc(Vec a) { return vrndq_f64(a); }
inline int32x4_t narrow(int64x2_t low, int64x2_t high) {
  return vmovn_high_s64(vmovn_s64(low), high);
}
// Saturated to 8 bits.
inline void store_words(const int32x4_t* words, int8_t* out) {
  const int16x8_t low = vqmovn_high_s32(vqmovn_s32(words[0]), words[1]);
  const int16x8_t high = vqmovn_high_s32(vqmovn_s32(words[2]), words[3]);
  vst1q_s8(out, vqmovn_high_s16(vqmovn_s16(low), high));
}
inline void store_truncated(const Vec* v, const int32_t* offset, int8_t* out) {
  int32x4_t words[4];
  for (int i = 0; i < 4; ++i) {
    const int32x4_t x = narrow(vcvtq_s64_f64(v[2 * i]), vcvtq_s64_f64(v[2 * i + 1]));
    words[i] = vaddq_s32(x, vld1q_s32(offset + 4 * i));
  }
  store_words(words, out);
}
inline void store_rounded(const Vec* v, const int32_t* offset, int8_t* out) {
  int32x4_t words[4];
  for (int i = 0; i < 4; ++i) {
    const int32x4_t x = narrow(vcvtnq_s64_f64(v[2 * i]), vcvtnq_s64_f64(v[2 * i + 1]));
    words[i] = vaddq_s32(x, vld1q_s32(offset + 4 * i));
  }
  store_words(words, out);
}

#include "sim/kernels_stages.inc"

constexpr int kVectorsOfKernels = kTileChannels / 4;

// One input channel of a pixel times 32 kernels.
template <int kLane>
inline void multiply_lane(const int16_t* w, int16x8_t x, int32x4_t* sum) {
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const int16x8_t weights = vld1q_s16(w + 8 * v);
    sum[2 * v] = vmlal_laneq_s16(sum[2 * v], vget_low_s16(weights), x, kLane);
    sum[2 * v + 1] = vmlal_high_laneq_s16(sum[2 * v + 1], weights, x, kLane);
  }
}

template <int kPixels>
inline void multiply_half(const int16_t* w, const int16x8_t* x,
                          int32x4_t (*sum)[kVectorsOfKernels]) {
#pragma GCC unroll 2
  for (int p = 0; p < kPixels; ++p) {
    multiply_lane<0>(w, x[p], sum[p]);
    multiply_lane<1>(w + kTileChannels, x[p], sum[p]);
    multiply_lane<2>(w + 2 * kTileChannels, x[p], sum[p]);
    multiply_lane<3>(w + 3 * kTileChannels, x[p], sum[p]);
    multiply_lane<4>(w + 4 * kTileChannels, x[p], sum[p]);
    multiply_lane<5>(w + 5 * kTileChannels, x[p], sum[p]);
    multiply_lane<6>(w + 6 * kTileChannels, x[p], sum[p]);
    multiply_lane<7>(w + 7 * kTileChannels, x[p], sum[p]);
  }
}

template <int kPixels>
inline void store_sums(const int32x4_t (*sum)[kVectorsOfKernels], int32_t* acc) {
  for (int p = 0; p < kPixels; ++p) {
    for (int v = 0; v < kVectorsOfKernels; ++v) {
      vst1q_s32(acc + p * kTileChannels + 4 * v, sum[p][v]);
    }
  }
}

template <int kPixels>
void dense_tile(const int8_t* input, const ptrdiff_t* offsets, size_t blocks,
                const uint8_t* weights, int32_t* acc) {
  int32x4_t sum[kPixels][kVectorsOfKernels];
  for (auto& pixel : sum) {
    for (int32x4_t& vector : pixel) vector = vdupq_n_s32(0);
  }
  const auto* w = reinterpret_cast<const int16_t*>(weights);
  for (size_t b = 0; b < blocks; ++b, w += kLanes * kTileChannels) {
    int16x8_t low[kPixels];
    int16x8_t high[kPixels];
    for (int p = 0; p < kPixels; ++p) {
      const int8x16_t bytes = vld1q_s8(input + offsets[b] + p * kLanes);
      low[p] = vmovl_s8(vget_low_s8(bytes));
      high[p] = vmovl_high_s8(bytes);
    }
    multiply_half<kPixels>(w, low, sum);
    multiply_half<kPixels>(w + kLanes / 2 * kTileChannels, high, sum);
  }
  store_sums<kPixels>(sum, acc);
}

// One quad of input channels of every pixel times 32 kernels.
template <int kQuad, int kPixels>
RK3588_DOT_TARGET inline void dot_quad(const int8_t* w, const int8x16_t* x,
                                       int32x4_t (*sum)[kVectorsOfKernels]) {
#pragma GCC unroll 8
  for (int v = 0; v < kVectorsOfKernels; ++v) {
    const int8x16_t four = vld1q_s8(w + kQuad * kTileChannels * 4 + v * 16);
#pragma GCC unroll 3
    for (int p = 0; p < kPixels; ++p) {
      sum[p][v] = vdotq_laneq_s32(sum[p][v], four, x[p], kQuad);
    }
  }
}

// 3 pixels x 32 kernels: 24 accumulators of the 32 registers.
template <int kPixels>
RK3588_DOT_TARGET void dot_tile(const int8_t* input, const ptrdiff_t* offsets, size_t blocks,
                                const uint8_t* weights, int32_t* acc) {
  int32x4_t sum[kPixels][kVectorsOfKernels];
  for (auto& pixel : sum) {
    for (int32x4_t& vector : pixel) vector = vdupq_n_s32(0);
  }
  const auto* w = reinterpret_cast<const int8_t*>(weights);
  for (size_t b = 0; b < blocks; ++b, w += kLanes * kTileChannels) {
    int8x16_t x[kPixels];
    for (int p = 0; p < kPixels; ++p) x[p] = vld1q_s8(input + offsets[b] + p * kLanes);
    dot_quad<0, kPixels>(w, x, sum);
    dot_quad<1, kPixels>(w, x, sum);
    dot_quad<2, kPixels>(w, x, sum);
    dot_quad<3, kPixels>(w, x, sum);
  }
  store_sums<kPixels>(sum, acc);
}

RK3588_DOT_TARGET void sum_pixels_dot(const int8_t* input, size_t surface_pitch, size_t surfaces,
                                      size_t pixels, int32_t* sums) {
  const int8x16_t ones = vdupq_n_s8(1);
  for (size_t p = 0; p < pixels; ++p) {
    int32x4_t total = vdupq_n_s32(0);
    for (size_t s = 0; s < surfaces; ++s) {
      total = vdotq_s32(total, ones, vld1q_s8(input + s * surface_pitch + p * kLanes));
    }
    sums[p] = vaddvq_s32(total);
  }
}

}  // namespace

const Kernels kNeonKernels = {run_stages,
                              dense_tiles<2, dense_tile<2>, dense_tile<1>>,
                              pack_groups<int16_t, 1>,
                              kLanes * kTileChannels * 2,
                              sum_pixels,
                              run_depthwise,
                              &kPortableHalfKernels};
const Kernels kNeonDotKernels = {run_stages,
                                 dense_tiles<3, dot_tile<3>, dot_tile<1>>,
                                 pack_groups<int8_t, 4>,
                                 kLanes * kTileChannels,
                                 sum_pixels_dot,
                                 run_depthwise,
                                 &kPortableHalfKernels};

}  // namespace rk3588::sim

#endif
