// Kernels for x86-64 with AVX2.
#include "sim/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace rk3588::sim {
namespace {

#define RK3588_TARGET __attribute__((target("avx2")))

constexpr int kWidth = 4;
using Vec = double __attribute__((vector_size(kWidth * sizeof(double))));

RK3588_TARGET inline Vec from_i32(const int32_t* p) {
  return _mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
RK3588_TARGET inline void from_i8(const int8_t* p, Vec* v) {
  for (int i = 0; i < 4; ++i) {
    int32_t four;
    std::memcpy(&four, p + 4 * i, 4);
    v[i] = _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
  }
}
RK3588_TARGET inline Vec min(Vec a, Vec b) { return _mm256_min_pd(a, b); }
RK3588_TARGET inline Vec max(Vec a, Vec b) { return _mm256_max_pd(a, b); }
RK3588_TARGET inline Vec round(Vec a) {
  return _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RK3588_TARGET inline Vec trunc(Vec a) {
  return _mm256_round_pd(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
// Offset added, saturated to 8 bits.
RK3588_TARGET inline void store_truncated(const Vec* v, const int32_t* offset, int8_t* out) {
  __m128i words[4];
  for (int i = 0; i < 4; ++i) {
    const __m128i add = _mm_loadu_si128(reinterpret_cast<const __m128i*>(offset) + i);
    words[i] = _mm_add_epi32(_mm256_cvttpd_epi32(v[i]), add);
  }
  const __m128i low = _mm_packs_epi32(words[0], words[1]);
  const __m128i high = _mm_packs_epi32(words[2], words[3]);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_packs_epi16(low, high));
}
RK3588_TARGET inline void store_rounded(const Vec* v, const int32_t* offset, int8_t* out) {
  const Vec rounded[4] = {round(v[0]), round(v[1]), round(v[2]), round(v[3])};
  store_truncated(rounded, offset, out);
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

}  // namespace

const Kernels kAvx2Kernels = {run_stages,
                              dense_tiles<2, dense_tile<2>, dense_tile<1>>,
                              pack_groups<int16_t, 2>,
                              kLanes * kTileChannels * 2,
                              sum_pixels,
                              run_depthwise,
                              &kAvx2HalfKernels};

}  // namespace rk3588::sim

#endif
