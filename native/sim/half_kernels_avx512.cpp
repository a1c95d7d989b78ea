// Kernels of fp16 tasks for x86-64 with AVX-512: sums of products; the rest as with AVX2.
#include "sim/half_kernels.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

// GCC 12 warns inside its own intrinsics, which start from undefined registers on purpose.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

namespace rk3588::sim {
namespace {

#define RK3588_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))

template <int kPixels>
RK3588_TARGET inline uint32_t block_tile(const double* const* inputs, const double* bounds,
                                         size_t count, const double* weights, const double* norms,
                                         float* sums, uint16_t* unsure) {
  __m512d block[kPixels][2];
  for (int p = 0; p < kPixels; ++p) block[p][0] = block[p][1] = _mm512_setzero_pd();
  for (size_t i = 0; i < count; ++i, weights += kHalfKernels) {
    const __m512d low = _mm512_loadu_pd(weights);
    const __m512d high = _mm512_loadu_pd(weights + 8);
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
      const __m512d value = _mm512_set1_pd(inputs[p][i]);
      block[p][0] = _mm512_fmadd_pd(value, low, block[p][0]);
      block[p][1] = _mm512_fmadd_pd(value, high, block[p][1]);
    }
  }
  uint32_t any = 0;
  for (int p = 0; p < kPixels; ++p, sums += kHalfKernels) {
    uint32_t bits = 0;
    for (int v = 0; v < 2; ++v) {
      const __m512d bound =
          _mm512_mul_pd(_mm512_set1_pd(bounds[p]), _mm512_loadu_pd(norms + 8 * v));
      const __m256 low = _mm512_cvtpd_ps(_mm512_sub_pd(block[p][v], bound));
      const __m256 high = _mm512_cvtpd_ps(_mm512_add_pd(block[p][v], bound));
      const __mmask8 same = _mm256_cmp_ps_mask(low, high, _CMP_EQ_OQ);
      const __m256 before = _mm256_loadu_ps(sums + 8 * v);
      _mm256_storeu_ps(sums + 8 * v, _mm256_mask_add_ps(before, same, before, low));
      bits |= (~static_cast<uint32_t>(same) & 0xffu) << 8 * v;
    }
    unsure[p] = static_cast<uint16_t>(bits);
    any |= bits;
  }
  return any;
}

RK3588_TARGET uint32_t run_block(const double* const* inputs, const double* bounds, size_t count,
                                 const double* weights, const double* norms, float* sums,
                                 uint16_t* unsure, int pixels) {
  uint32_t any = 0;
  int p = 0;
  for (; p + 8 <= pixels; p += 8) {
    any |= block_tile<8>(inputs + p, bounds + p, count, weights, norms, sums + p * kHalfKernels,
                         unsure + p);
  }
  for (; p + 2 <= pixels; p += 2) {
    any |= block_tile<2>(inputs + p, bounds + p, count, weights, norms, sums + p * kHalfKernels,
                         unsure + p);
  }
  if (p < pixels) {
    any |= block_tile<1>(inputs + p, bounds + p, count, weights, norms, sums + p * kHalfKernels,
                         unsure + p);
  }
  return any;
}

}  // namespace

const HalfKernels& avx512_half_kernels() {
  static const HalfKernels kernels = {kAvx2HalfKernels.load, run_block, kAvx2HalfKernels.depthwise,
                                      kAvx2HalfKernels.stages};
  return kernels;
}

}  // namespace rk3588::sim

#endif
