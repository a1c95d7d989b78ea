// Kernels for x86-64 with AVX-512 VNNI.
#include "sim/kernels.h"

#if defined(__x86_64__)

// GCC 12 warns inside its own intrinsics, which start from undefined registers on purpose.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cstring>

namespace rk3588::sim {
namespace {

#define RK3588_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")))

constexpr int kWidth = 8;
using Vec = double __attribute__((vector_size(kWidth * sizeof(double))));
constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
constexpr int kTowardsZero = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

RK3588_TARGET inline Vec from_i32(const int32_t* p) {
  return _mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
RK3588_TARGET inline void from_i8(const int8_t* p, Vec* v) {
  const __m512i wide = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  v[0] = _mm512_cvtepi32_pd(_mm512_castsi512_si256(wide));
  v[1] = _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(wide, 1));
}
RK3588_TARGET inline Vec min(Vec a, Vec b) { return _mm512_min_pd(a, b); }
RK3588_TARGET inline Vec max(Vec a, Vec b) { return _mm512_max_pd(a, b); }
RK3588_TARGET inline Vec round(Vec a) { return _mm512_roundscale_pd(a, kNearest); }
RK3588_TARGET inline Vec trunc(Vec a) { return _mm512_roundscale_pd(a, kTowardsZero); }
// Offset added, saturated to 8 bits.
RK3588_TARGET inline void store_words(__m256i low, __m256i high, const int32_t* offset,
                                      int8_t* out) {
  const __m512i wide = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  const __m512i sum = _mm512_add_epi32(wide, _mm512_loadu_si512(offset));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtsepi32_epi8(sum));
}
RK3588_TARGET inline void store_truncated(const Vec* v, const int32_t* offset, int8_t* out) {
  store_words(_mm512_cvttpd_epi32(v[0]), _mm512_cvttpd_epi32(v[1]), offset, out);
}
RK3588_TARGET inline void store_rounded(const Vec* v, const int32_t* offset, int8_t* out) {
  store_words(_mm512_cvt_roundpd_epi32(v[0], kNearest), _mm512_cvt_roundpd_epi32(v[1], kNearest),
              offset, out);
}

#include "sim/kernels_stages.inc"

// Packed: [4 quads of input channels][32 kernels][4] bytes, weight + 128: the instruction
// multiplies unsigned by signed, and the inputs stay as they are. acc starts at -128 * (sum of
// inputs) to make up for it.
constexpr uint32_t kToUnsigned = 0x80808080u;

void pack(const int8_t* weights, size_t row_stride, int rows, uint8_t* packed) {
  for (int o = 0; o < kTileChannels; ++o) {
    for (int quad = 0; quad < 4; ++quad) {
      uint32_t word = 0;
      if (o < rows) std::memcpy(&word, weights + o * row_stride + quad * 4, 4);
      word ^= kToUnsigned;
      std::memcpy(packed + (quad * kTileChannels + o) * 4, &word, 4);
    }
  }
}

template <int kPixels>
RK3588_TARGET void dense_tile(const int8_t* input, const ptrdiff_t* offsets, size_t blocks,
                              const uint8_t* weights, const int32_t* sums, int32_t* acc) {
  __m512i low[kPixels];
  __m512i high[kPixels];
#pragma GCC unroll 14
  for (int p = 0; p < kPixels; ++p) low[p] = high[p] = _mm512_set1_epi32(-128 * sums[p]);
  for (size_t b = 0; b < blocks; ++b) {
    const int8_t* x = input + offsets[b];
#pragma GCC unroll 4
    for (int quad = 0; quad < 4; ++quad) {
      const __m512i w0 = _mm512_loadu_si512(weights);
      const __m512i w1 = _mm512_loadu_si512(weights + 64);
      weights += 128;
#pragma GCC unroll 14
      for (int p = 0; p < kPixels; ++p) {
        int32_t four;
        std::memcpy(&four, x + p * kLanes + quad * 4, 4);
        const __m512i value = _mm512_set1_epi32(four);
        low[p] = _mm512_dpbusd_epi32(low[p], w0, value);
        high[p] = _mm512_dpbusd_epi32(high[p], w1, value);
      }
    }
  }
#pragma GCC unroll 14
  for (int p = 0; p < kPixels; ++p) {
    _mm512_storeu_si512(acc + p * kTileChannels, low[p]);
    _mm512_storeu_si512(acc + p * kTileChannels + 16, high[p]);
  }
}

using TileFunction = void (*)(const int8_t*, const ptrdiff_t*, size_t, const uint8_t*,
                              const int32_t*, int32_t*);
constexpr TileFunction kTiles[kTilePixels] = {
    dense_tile<1>,  dense_tile<2>,  dense_tile<3>,  dense_tile<4>, dense_tile<5>,
    dense_tile<6>,  dense_tile<7>,  dense_tile<8>,  dense_tile<9>, dense_tile<10>,
    dense_tile<11>, dense_tile<12>, dense_tile<13>, dense_tile<14>};

void dense(const int8_t* input, const ptrdiff_t* offsets, size_t blocks, const uint8_t* weights,
           const int32_t* sums, int32_t* acc, int pixels) {
  kTiles[pixels - 1](input, offsets, blocks, weights, sums, acc);
}

RK3588_TARGET void sum_fours(const int8_t* input, size_t surface_pitch, size_t surfaces,
                             size_t pixels, int32_t* sums) {
  const __m512i ones = _mm512_set1_epi8(1);
  size_t p = 0;
  for (; p + 4 <= pixels; p += 4) {
    __m512i total = _mm512_setzero_si512();
    for (size_t s = 0; s < surfaces; ++s) {
      const __m512i x = _mm512_loadu_si512(input + s * surface_pitch + p * kLanes);
      total = _mm512_dpbusd_epi32(total, ones, x);
    }
    // Four partial sums per pixel.
    total = _mm512_add_epi32(total, _mm512_shuffle_epi32(total, _MM_PERM_BADC));
    total = _mm512_add_epi32(total, _mm512_shuffle_epi32(total, _MM_PERM_CDAB));
    alignas(64) int32_t lanes[16];
    _mm512_store_si512(lanes, total);
    for (int i = 0; i < 4; ++i) sums[p + i] = lanes[i * 4];
  }
  sum_pixels(input + p * kLanes, surface_pitch, surfaces, pixels - p, sums + p);
}

}  // namespace

const Kernels kAvx512Kernels = {
    run_stages, dense, pack, kLanes * kTileChannels, sum_fours, run_depthwise, &kAvx512HalfKernels};

}  // namespace rk3588::sim

#endif
