// Kernels without processor-specific code: any architecture, vectorised as far as the compiler
// does.
#include <cstring>

#include "sim/kernels.h"

namespace rk3588::sim {
namespace {

#define RK3588_TARGET

constexpr int kWidth = 2;
using Vec = double __attribute__((vector_size(kWidth * sizeof(double))));

inline Vec from_i32(const int32_t* p) {
  return Vec{static_cast<double>(p[0]), static_cast<double>(p[1])};
}
inline void from_i8(const int8_t* p, Vec* v) {
  for (int i = 0; i < kLanes; ++i) v[i / kWidth][i % kWidth] = p[i];
}
inline Vec min(Vec a, Vec b) { return a < b ? a : b; }
inline Vec max(Vec a, Vec b) { return a > b ? a : b; }
// To nearest, ties to even: adding 1.5 * 2^52 leaves no fraction bits. Needs |a| < 2^51.
inline Vec round(Vec a) {
  constexpr double kMagic = 6755399441055744.0;
  return (a + kMagic) - kMagic;
}
inline Vec trunc(Vec a) {
  for (int i = 0; i < kWidth; ++i) a[i] = static_cast<double>(static_cast<int64_t>(a[i]));
  return a;
}
inline void store_truncated(const Vec* v, const int32_t* offset, int8_t* out) {
  for (int i = 0; i < kLanes; ++i) {
    int32_t x = static_cast<int32_t>(v[i / kWidth][i % kWidth]) + offset[i];
    x = x < -128 ? -128 : x;
    out[i] = static_cast<int8_t>(x > 127 ? 127 : x);
  }
}
inline void store_rounded(const Vec* v, const int32_t* offset, int8_t* out) {
  Vec rounded[kLanes / kWidth];
  for (int i = 0; i < kLanes / kWidth; ++i) rounded[i] = round(v[i]);
  store_truncated(rounded, offset, out);
}

#include "sim/kernels_stages.inc"

void dense(const int8_t* input, const ptrdiff_t* offsets, size_t blocks, const uint8_t* weights,
           const int32_t*, int32_t* acc, int pixels) {
  for (int p = 0; p < pixels; ++p) {
    int32_t sum[kTileChannels] = {};
    const auto* w = reinterpret_cast<const int16_t*>(weights);
    for (size_t b = 0; b < blocks; ++b) {
      const int8_t* x = input + offsets[b] + p * kLanes;
      for (int i = 0; i < kLanes; ++i, w += kTileChannels) {
        const int16_t value = x[i];
        for (int o = 0; o < kTileChannels; ++o) sum[o] += int32_t{value} * int32_t{w[o]};
      }
    }
    for (int o = 0; o < kTileChannels; ++o) acc[p * kTileChannels + o] = sum[o];
  }
}

}  // namespace

const Kernels kPortableKernels = {
    run_stages, dense,         pack_groups<int16_t, 1>, kLanes * kTileChannels * 2,
    sum_pixels, run_depthwise, &kPortableHalfKernels};
}  // namespace rk3588::sim
