// Kernels of fp16 tasks for x86-64 with AVX2, FMA and F16C.
#include "sim/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace rk3588::sim {
namespace {

#define RK3588_TARGET __attribute__((target("avx2,fma,f16c")))

using Floats = float __attribute__((vector_size(kHalfLanes * sizeof(float))));

constexpr int kVectorPixels = 1;
constexpr int kDepthwiseVectors = 8;
constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
constexpr int16_t kNan = 0x7e00;

RK3588_TARGET inline Floats from_half(const int8_t* atom) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(atom)));
}
RK3588_TARGET inline Floats repeated(const float* p) { return _mm256_loadu_ps(p); }
RK3588_TARGET inline Floats gathered(const float* p, size_t) { return _mm256_loadu_ps(p); }
RK3588_TARGET inline Floats multiply_add(Floats a, Floats b, Floats sum) {
  return _mm256_fmadd_ps(a, b, sum);
}
RK3588_TARGET inline Floats smaller(Floats a, Floats b) { return _mm256_min_ps(a, b); }
RK3588_TARGET inline Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
RK3588_TARGET inline void store_half(Floats v, const uint16_t* real, const uint16_t* pend,
                                     int8_t* out) {
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m128i is_nan =
      _mm_packs_epi32(_mm256_castsi256_si128(nan), _mm256_extracti128_si256(nan, 1));
  const __m128i half = _mm_blendv_epi8(_mm256_cvtps_ph(v, kNearest), _mm_set1_epi16(kNan), is_nan);
  const __m128i mask = _mm_load_si128(reinterpret_cast<const __m128i*>(real));
  const __m128i other = _mm_load_si128(reinterpret_cast<const __m128i*>(pend));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_blendv_epi8(other, half, mask));
}

#include "sim/half_stages.inc"

using Atom = Floats;
using Words = uint16_t __attribute__((vector_size(kAtomBytes)));
RK3588_TARGET inline Atom atom_of(const int8_t* bytes) { return from_half(bytes); }
RK3588_TARGET inline void store_doubles(Atom atom, double* to) {
  _mm256_storeu_pd(to, _mm256_cvtps_pd(_mm256_castps256_ps128(atom)));
  _mm256_storeu_pd(to + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(atom, 1)));
}
RK3588_TARGET inline uint32_t smallest(Words words) {
  const __m128i least = _mm_minpos_epu16(reinterpret_cast<__m128i>(words));
  return static_cast<uint32_t>(_mm_extract_epi16(least, 0));
}

#include "sim/half_load.inc"

constexpr int kDoubles = 4;
using Doubles = double __attribute__((vector_size(kDoubles * sizeof(double))));
constexpr int kMostPixels = 2;

RK3588_TARGET inline Doubles multiply_add(Doubles a, Doubles b, Doubles sum) {
  return _mm256_fmadd_pd(a, b, sum);
}
#include "sim/half_dense.inc"

}  // namespace

const HalfKernels kAvx2HalfKernels = {load_values, widen, run_dense, run_half_depthwise,
                                      run_stages};

}  // namespace rk3588::sim

#endif
