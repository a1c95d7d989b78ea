// Kernels of fp16 tasks for x86-64 with AVX-512: sums of products; the rest as with AVX2.
#include "sim/half_kernels.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

// GCC 12 warns inside its own intrinsics, which start from undefined registers on purpose.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cstring>

namespace rk3588::sim {
namespace {

#define RK3588_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))

constexpr int kDoubles = 8;
using Doubles = double __attribute__((vector_size(kDoubles * sizeof(double))));
constexpr int kMostPixels = 8;

RK3588_TARGET inline Doubles multiply_add(Doubles a, Doubles b, Doubles sum) {
  return _mm512_fmadd_pd(a, b, sum);
}
RK3588_TARGET inline uint32_t add_where_sure(Doubles block, Doubles bound, float* sums) {
  const __m256 low = _mm512_cvtpd_ps(block - bound);
  const __mmask8 same = _mm256_cmp_ps_mask(low, _mm512_cvtpd_ps(block + bound), _CMP_EQ_OQ);
  const __m256 before = _mm256_loadu_ps(sums);
  _mm256_storeu_ps(sums, _mm256_mask_add_ps(before, same, before, low));
  return ~static_cast<uint32_t>(same) & 0xffu;
}

#include "sim/half_block.inc"

}  // namespace

const HalfKernels kAvx512HalfKernels = {kAvx2HalfKernels.load, run_block,
                                        kAvx2HalfKernels.depthwise, kAvx2HalfKernels.stages};
}  // namespace rk3588::sim

#endif
