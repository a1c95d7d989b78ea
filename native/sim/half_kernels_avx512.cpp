// Kernels of fp16 tasks for x86-64 with AVX-512: sums, and two pixels at once in the stages; the
// rest as with AVX2.
#include "sim/kernels.h"

#if defined(__x86_64__)

// GCC 12 warns inside its own intrinsics, which start from undefined registers on purpose.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
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
#include "sim/half_dense.inc"

constexpr int kVectorPixels = 2;
constexpr int kDepthwiseVectors = 8;
constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
constexpr int16_t kNan = 0x7e00;
using Floats = float __attribute__((vector_size(kVectorPixels * kHalfLanes * sizeof(float))));

RK3588_TARGET inline Floats from_half(const int8_t* atoms) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(atoms)));
}
RK3588_TARGET inline Floats repeated(const float* p) {
  return _mm512_broadcast_f32x8(_mm256_loadu_ps(p));
}
RK3588_TARGET inline Floats gathered(const float* p, size_t step) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p)), _mm256_loadu_ps(p + step),
                            1);
}
RK3588_TARGET inline Floats multiply_add(Floats a, Floats b, Floats sum) {
  return _mm512_fmadd_ps(a, b, sum);
}
RK3588_TARGET inline Floats smaller(Floats a, Floats b) { return _mm512_min_ps(a, b); }
RK3588_TARGET inline Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
RK3588_TARGET inline void store_half(Floats v, const uint16_t* real, const uint16_t* pend,
                                     int8_t* out) {
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m256i half =
      _mm256_mask_mov_epi16(_mm512_cvtps_ph(v, kNearest), is_nan, _mm256_set1_epi16(kNan));
  const __m256i mask =
      _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(real)));
  const __m256i other =
      _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(pend)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_blendv_epi8(other, half, mask));
}

#include "sim/half_stages.inc"

}  // namespace

const HalfKernels kAvx512HalfKernels = {kAvx2HalfKernels.load, kAvx2HalfKernels.widen, run_dense,
                                        run_half_depthwise, run_stages};
}  // namespace rk3588::sim

#endif
