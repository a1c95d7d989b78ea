// Kernels of fp16 tasks for x86-64 with AVX2, FMA and F16C.
#include "sim/half_kernels.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

#include <immintrin.h>

#include <cstring>

namespace rk3588::sim {
namespace {

#define RK3588_TARGET __attribute__((target("avx2,fma,f16c")))

using Floats = float __attribute__((vector_size(kHalfLanes * sizeof(float))));

constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
constexpr int16_t kNan = 0x7e00;

RK3588_TARGET inline Floats from_half(const int8_t* atom) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(atom)));
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

// A whole number below 2^52 added to 2^52 lies in the last bits as it is.
RK3588_TARGET inline __m256i places_of(__m256d value) {
  const __m256d magnitude = _mm256_andnot_pd(_mm256_set1_pd(-0.0), value);
  const __m256d units = _mm256_mul_pd(magnitude, _mm256_set1_pd(kHalfUnits));
  return _mm256_castpd_si256(_mm256_add_pd(units, _mm256_set1_pd(4503599627370496.0)));
}

RK3588_TARGET double load_half_values(const int8_t* atoms, ptrdiff_t pitch, size_t surfaces,
                                      double* values, uint64_t* bits) {
  __m256d squares[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  __m256i places = _mm256_setzero_si256();
  for (size_t s = 0; s < surfaces; ++s, values += kHalfLanes) {
    const __m256 numbers = from_half(atoms + static_cast<ptrdiff_t>(s) * pitch);
    const __m256d parts[2] = {_mm256_cvtps_pd(_mm256_castps256_ps128(numbers)),
                              _mm256_cvtps_pd(_mm256_extractf128_ps(numbers, 1))};
    for (int i = 0; i < 2; ++i) {
      _mm256_storeu_pd(values + 4 * i, parts[i]);
      squares[i] = _mm256_fmadd_pd(parts[i], parts[i], squares[i]);
      places = _mm256_or_si256(places, places_of(parts[i]));
    }
  }
  alignas(32) double sums[4];
  alignas(32) uint64_t words[4];
  _mm256_store_pd(sums, _mm256_add_pd(squares[0], squares[1]));
  _mm256_store_si256(reinterpret_cast<__m256i*>(words), places);
  *bits = (words[0] | words[1] | words[2] | words[3]) & ((uint64_t{1} << 52) - 1);
  return sums[0] + sums[1] + sums[2] + sums[3];
}

constexpr int kDoubles = 4;
using Doubles = double __attribute__((vector_size(kDoubles * sizeof(double))));
constexpr int kMostPixels = 2;

RK3588_TARGET inline Doubles multiply_add(Doubles a, Doubles b, Doubles sum) {
  return _mm256_fmadd_pd(a, b, sum);
}
RK3588_TARGET inline uint32_t add_where_sure(Doubles block, Doubles bound, float* sums) {
  const __m128 low = _mm256_cvtpd_ps(block - bound);
  const __m128 differ = _mm_cmp_ps(low, _mm256_cvtpd_ps(block + bound), _CMP_NEQ_UQ);
  const __m128 before = _mm_loadu_ps(sums);
  _mm_storeu_ps(sums, _mm_blendv_ps(before + low, before, differ));
  return static_cast<uint32_t>(_mm_movemask_ps(differ));
}

#include "sim/half_block.inc"

}  // namespace

const HalfKernels kAvx2HalfKernels = {load_half_values, run_block, run_half_depthwise,
                                      run_half_stages};

}  // namespace rk3588::sim

#endif
