// Kernels for x86-64 with AVX2.
#include "sim/kernels.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

#include <immintrin.h>

#include <cstring>

namespace rk3588::sim {
namespace {

#define RK3588_TARGET __attribute__((target("avx2")))

struct Vec {
  static constexpr int kWidth = 4;
  __m256d x;
};

RK3588_TARGET inline Vec load(const double* p) { return {_mm256_loadu_pd(p)}; }
RK3588_TARGET inline Vec set(double value) { return {_mm256_set1_pd(value)}; }
RK3588_TARGET inline Vec from_i32(const int32_t* p) {
  return {_mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
RK3588_TARGET inline void from_i8(const int8_t* p, Vec* v) {
  for (int i = 0; i < 4; ++i) {
    int32_t four;
    std::memcpy(&four, p + 4 * i, 4);
    v[i].x = _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
  }
}
RK3588_TARGET inline Vec add(Vec a, Vec b) { return {_mm256_add_pd(a.x, b.x)}; }
RK3588_TARGET inline Vec mul(Vec a, Vec b) { return {_mm256_mul_pd(a.x, b.x)}; }
RK3588_TARGET inline Vec min(Vec a, Vec b) { return {_mm256_min_pd(a.x, b.x)}; }
RK3588_TARGET inline Vec max(Vec a, Vec b) { return {_mm256_max_pd(a.x, b.x)}; }
RK3588_TARGET inline Vec round(Vec a) {
  return {_mm256_round_pd(a.x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
RK3588_TARGET inline Vec trunc(Vec a) {
  return {_mm256_round_pd(a.x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
}
RK3588_TARGET inline Vec select_negative(Vec sign, Vec negative, Vec other) {
  const __m256d mask = _mm256_cmp_pd(sign.x, _mm256_setzero_pd(), _CMP_LT_OQ);
  return {_mm256_blendv_pd(other.x, negative.x, mask)};
}
RK3588_TARGET inline Vec half_with_sign_of(Vec a) {
  const __m256d sign = _mm256_and_pd(a.x, _mm256_set1_pd(-0.0));
  return {_mm256_or_pd(_mm256_set1_pd(0.5), sign)};
}
// Offset added, saturated to 8 bits.
RK3588_TARGET inline void store_truncated(const Vec* v, const int32_t* offset, int8_t* out) {
  __m128i words[4];
  for (int i = 0; i < 4; ++i) {
    const __m128i add = _mm_loadu_si128(reinterpret_cast<const __m128i*>(offset) + i);
    words[i] = _mm_add_epi32(_mm256_cvttpd_epi32(v[i].x), add);
  }
  const __m128i low = _mm_packs_epi32(words[0], words[1]);
  const __m128i high = _mm_packs_epi32(words[2], words[3]);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_packs_epi16(low, high));
}
RK3588_TARGET inline void store_rounded(const Vec* v, const int32_t* offset, int8_t* out) {
  const Vec rounded[4] = {round(v[0]), round(v[1]), round(v[2]), round(v[3])};
  store_truncated(rounded, offset, out);
}
RK3588_TARGET inline void store_i8(const Vec* v, int8_t* out) {
  const __m128i a = _mm_packs_epi32(_mm256_cvttpd_epi32(v[0].x), _mm256_cvttpd_epi32(v[1].x));
  const __m128i b = _mm_packs_epi32(_mm256_cvttpd_epi32(v[2].x), _mm256_cvttpd_epi32(v[3].x));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_packs_epi16(a, b));
}

#include "sim/kernels_stages.inc"

// Weights are packed in pairs of input channels as int16: products of pairs are summed in 32 bits,
// exactly.

// 2 pixels x 32 kernels: 8 accumulators, 4 weights, 2 inputs.
template <int kPixels>
RK3588_TARGET void dense_tile(const int8_t* input, const ptrdiff_t* offsets, size_t blocks,
                              const uint8_t* weights, int32_t* acc) {
  __m256i sum[kPixels][4];
  for (int p = 0; p < kPixels; ++p) {
    for (int v = 0; v < 4; ++v) sum[p][v] = _mm256_setzero_si256();
  }
  const auto* w = reinterpret_cast<const __m256i*>(weights);
  for (size_t b = 0; b < blocks; ++b) {
    alignas(32) int32_t pairs[kPixels][8];
    for (int p = 0; p < kPixels; ++p) {
      const auto* x = reinterpret_cast<const __m128i*>(input + offsets[b] + p * kLanes);
      _mm256_store_si256(reinterpret_cast<__m256i*>(pairs[p]),
                         _mm256_cvtepi8_epi16(_mm_loadu_si128(x)));
    }
    for (int i = 0; i < 8; ++i, w += 4) {
#pragma GCC unroll 2
      for (int p = 0; p < kPixels; ++p) {
        const __m256i value = _mm256_set1_epi32(pairs[p][i]);
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
          const __m256i product = _mm256_madd_epi16(_mm256_loadu_si256(w + v), value);
          sum[p][v] = _mm256_add_epi32(sum[p][v], product);
        }
      }
    }
  }
  for (int p = 0; p < kPixels; ++p) {
    for (int v = 0; v < 4; ++v) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(acc + p * kTileChannels) + v, sum[p][v]);
    }
  }
}

void dense(const int8_t* input, const ptrdiff_t* offsets, size_t blocks, const uint8_t* weights,
           const int32_t*, int32_t* acc, int pixels) {
  int p = 0;
  for (; p + 2 <= pixels; p += 2) {
    dense_tile<2>(input + p * kLanes, offsets, blocks, weights, acc + p * kTileChannels);
  }
  if (p < pixels) {
    dense_tile<1>(input + p * kLanes, offsets, blocks, weights, acc + p * kTileChannels);
  }
}

RK3588_TARGET void sum_pixels(const int8_t* input, size_t surface_pitch, size_t surfaces,
                              size_t pixels, int32_t* sums) {
  const __m128i ones = _mm_set1_epi8(1);
  for (size_t p = 0; p < pixels; ++p) {
    __m128i total = _mm_setzero_si128();
    for (size_t s = 0; s < surfaces; ++s) {
      const auto* x = reinterpret_cast<const __m128i*>(input + s * surface_pitch + p * kLanes);
      // 1 (unsigned) times a signed byte, summed in pairs: no saturation possible.
      const __m128i pairs = _mm_maddubs_epi16(ones, _mm_loadu_si128(x));
      total = _mm_add_epi32(total, _mm_madd_epi16(pairs, _mm_set1_epi16(1)));
    }
    total = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0x4e));
    total = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0xb1));
    sums[p] = _mm_cvtsi128_si32(total);
  }
}

}  // namespace

const Kernels kAvx2Kernels = {
    run_stages, dense,        pack_groups<int16_t, 2>, kLanes * kTileChannels * 2,
    sum_pixels, run_depthwise};

}  // namespace rk3588::sim

#endif
