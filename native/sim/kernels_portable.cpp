// Kernels without processor-specific code: any architecture, vectorised as far as the compiler
// does.
#include "sim/kernels.h"

namespace rk3588::sim {
namespace {

#define RK3588_TARGET

struct Vec {
  static constexpr int kWidth = 4;
  double x[kWidth];
};

template <typename Function>
inline Vec each(Function function) {
  Vec result;
  for (int i = 0; i < Vec::kWidth; ++i) result.x[i] = function(i);
  return result;
}

inline Vec load(const double* p) {
  return each([&](int i) { return p[i]; });
}
inline Vec set(double value) {
  return each([&](int) { return value; });
}
inline Vec from_i32(const int32_t* p) {
  return each([&](int i) { return static_cast<double>(p[i]); });
}
inline void from_i8(const int8_t* p, Vec* v) {
  for (int i = 0; i < kLanes; ++i) v[i / Vec::kWidth].x[i % Vec::kWidth] = p[i];
}
inline Vec add(Vec a, Vec b) {
  return each([&](int i) { return a.x[i] + b.x[i]; });
}
inline Vec mul(Vec a, Vec b) {
  return each([&](int i) { return a.x[i] * b.x[i]; });
}
inline Vec min(Vec a, Vec b) {
  return each([&](int i) { return a.x[i] < b.x[i] ? a.x[i] : b.x[i]; });
}
inline Vec max(Vec a, Vec b) {
  return each([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
}
// To nearest, ties to even: adding 1.5 * 2^52 leaves no fraction bits. Needs |a| < 2^51.
inline Vec round(Vec a) {
  constexpr double kMagic = 6755399441055744.0;
  return each([&](int i) { return (a.x[i] + kMagic) - kMagic; });
}
inline Vec trunc(Vec a) {
  return each([&](int i) { return static_cast<double>(static_cast<int64_t>(a.x[i])); });
}
inline Vec select_negative(Vec sign, Vec negative, Vec other) {
  return each([&](int i) { return sign.x[i] < 0 ? negative.x[i] : other.x[i]; });
}
inline Vec half_with_sign_of(Vec a) {
  return each([&](int i) { return a.x[i] < 0 ? -0.5 : 0.5; });
}
inline void store_truncated(const Vec* v, const int32_t* offset, int8_t* out) {
  for (int i = 0; i < kLanes; ++i) {
    int32_t x = static_cast<int32_t>(v[i / Vec::kWidth].x[i % Vec::kWidth]) + offset[i];
    x = x < -128 ? -128 : x;
    out[i] = static_cast<int8_t>(x > 127 ? 127 : x);
  }
}
inline void store_rounded(const Vec* v, const int32_t* offset, int8_t* out) {
  Vec rounded[kLanes / Vec::kWidth];
  for (int i = 0; i < kLanes / Vec::kWidth; ++i) rounded[i] = round(v[i]);
  store_truncated(rounded, offset, out);
}
inline void store_i8(const Vec* v, int8_t* out) {
  for (int i = 0; i < kLanes; ++i) {
    out[i] = static_cast<int8_t>(static_cast<int32_t>(v[i / Vec::kWidth].x[i % Vec::kWidth]));
  }
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

void sum_pixels(const int8_t* input, size_t surface_pitch, size_t surfaces, size_t pixels,
                int32_t* sums) {
  for (size_t p = 0; p < pixels; ++p) {
    int32_t sum = 0;
    for (size_t s = 0; s < surfaces; ++s) {
      const int8_t* x = input + s * surface_pitch + p * kLanes;
      for (int c = 0; c < kLanes; ++c) sum += x[c];
    }
    sums[p] = sum;
  }
}

}  // namespace

const Kernels kPortableKernels = {
    run_stages, dense,        pack_groups<int16_t, 1>, kLanes * kTileChannels * 2,
    sum_pixels, run_depthwise};

}  // namespace rk3588::sim
