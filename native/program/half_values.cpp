// float32 to and from fp16: by instructions of the processor where it has them, else as the
// simulator does it.
#include <cstring>

#include "program/host_values.h"
#include "sim/element.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace rk3588 {
namespace {

constexpr uint32_t kInfinity = 0x7f800000;  // fp32
constexpr uint32_t kMostHalf = 0x477fe000;  // 65504
constexpr uint16_t kHalfInfinity = 0x7c00;
constexpr uint16_t kHalfMost = 0x7bff;
constexpr uint16_t kHalfQuiet = 0x200;
constexpr uint32_t kFloatQuiet = 0x400000;
constexpr int kDropped = 13;  // bits of fp32's fraction that fp16 lacks

// As the simulator has it, but for NaN and what is beyond fp16's range.
uint16_t half_of(uint32_t bits) {
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > kInfinity) {
    return static_cast<uint16_t>(sign | kHalfInfinity | kHalfQuiet |
                                 (magnitude >> kDropped & 0x3ff));
  }
  const bool is_beyond = magnitude >= kMostHalf && magnitude < kInfinity;
  return is_beyond ? static_cast<uint16_t>(sign | kHalfMost)
                   : sim::float_to_half(sim::float_of_bits(bits));
}

uint32_t float_of(uint16_t half) {
  const uint32_t magnitude = half & 0x7fff;
  if (magnitude <= kHalfInfinity) return sim::bits_of_float(sim::half_to_float(half));
  return uint32_t{half & 0x8000u} << 16 | kInfinity | kFloatQuiet | (magnitude & 0x3ff) << kDropped;
}

#if defined(__x86_64__)

constexpr size_t kLanes = 8;
constexpr size_t kTogether = 8 * kLanes;  // converted before anybody looks for large numbers

bool has_conversion() {
  static const bool found = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return found;
}

// Converts vectors with finite numbers beyond fp16's range.
__attribute__((target("avx2,f16c"))) __m128i limited_half(__m256 x) {
  const __m256 most = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kMostHalf)));
  const __m256 sign = _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MIN));
  const __m256 infinity = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kInfinity)));
  const __m256 magnitude = _mm256_andnot_ps(sign, x);
  // The second operand where one is NaN.
  const __m256 limited = _mm256_or_ps(_mm256_min_ps(most, magnitude), _mm256_and_ps(sign, x));
  const __m256 is_infinite = _mm256_cmp_ps(magnitude, infinity, _CMP_EQ_OQ);
  const __m256 kept = _mm256_blendv_ps(limited, x, is_infinite);
  return _mm256_cvtps_ph(kept, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

__attribute__((target("avx2,f16c"))) size_t to_half_vectors(const uint8_t* values, size_t count,
                                                            uint8_t* device) {
  const auto load = [&](size_t i) __attribute__((target("avx2,f16c"))) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(values + i * sizeof(float)));
  };
  const auto store = [&](size_t i, __m128i half) __attribute__((target("avx2,f16c"))) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(device + i * sizeof(uint16_t)), half);
  };
  const __m128i no_sign = _mm_set1_epi16(INT16_MAX);
  size_t i = 0;
  for (size_t next = kTogether; next <= count; next += kTogether) {
    __m128i largest = _mm_setzero_si128();
    for (size_t v = i; v < next; v += kLanes) {
      const __m128i half = _mm256_cvtps_ph(load(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      largest = _mm_max_epi16(largest, _mm_and_si128(half, no_sign));
      store(v, half);
    }
    // A number that became infinite may have been finite.
    const __m128i beyond = _mm_cmpgt_epi16(largest, _mm_set1_epi16(kHalfMost));
    if (_mm_movemask_epi8(beyond) == 0) {
      i = next;
      continue;
    }
    for (; i < next; i += kLanes) store(i, limited_half(load(i)));
  }
  for (; i + kLanes <= count; i += kLanes) store(i, limited_half(load(i)));
  return i;
}

__attribute__((target("avx2,f16c"))) size_t from_half_vectors(const uint8_t* device, size_t count,
                                                              uint8_t* values) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto* source = reinterpret_cast<const __m128i*>(device + i * sizeof(uint16_t));
    const __m256 x = _mm256_cvtph_ps(_mm_loadu_si128(source));
    _mm256_storeu_ps(reinterpret_cast<float*>(values + i * sizeof(float)), x);
  }
  return i;
}

#elif defined(__aarch64__)

constexpr size_t kLanes = 4;

bool has_conversion() { return true; }  // part of the base architecture

size_t to_half_vectors(const uint8_t* values, size_t count, uint8_t* device) {
  const float32x4_t most = vreinterpretq_f32_u32(vdupq_n_u32(kMostHalf));
  const float32x4_t infinity = vreinterpretq_f32_u32(vdupq_n_u32(kInfinity));
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const float32x4_t x = vreinterpretq_f32_u8(vld1q_u8(values + i * sizeof(float)));
    const float32x4_t magnitude = vabsq_f32(x);
    // No comparison holds for NaN.
    const uint32x4_t is_beyond =
        vandq_u32(vcgtq_f32(magnitude, most), vcltq_f32(magnitude, infinity));
    const float32x4_t limit = vbslq_f32(vdupq_n_u32(0x80000000), x, most);
    const float16x4_t half = vcvt_f16_f32(vbslq_f32(is_beyond, limit, x));
    vst1_u8(device + i * sizeof(uint16_t), vreinterpret_u8_f16(half));
  }
  return i;
}

size_t from_half_vectors(const uint8_t* device, size_t count, uint8_t* values) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const float16x4_t half = vreinterpret_f16_u8(vld1_u8(device + i * sizeof(uint16_t)));
    vst1q_u8(values + i * sizeof(float), vreinterpretq_u8_f32(vcvt_f32_f16(half)));
  }
  return i;
}

#else

bool has_conversion() { return false; }
size_t to_half_vectors(const uint8_t*, size_t, uint8_t*) { return 0; }
size_t from_half_vectors(const uint8_t*, size_t, uint8_t*) { return 0; }

#endif

}  // namespace

void to_half_portable(const uint8_t* values, size_t count, uint8_t* device) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i * sizeof bits, sizeof bits);
    const uint16_t half = half_of(bits);
    std::memcpy(device + i * sizeof half, &half, sizeof half);
  }
}

void from_half_portable(const uint8_t* device, size_t count, uint8_t* values) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, device + i * sizeof half, sizeof half);
    const uint32_t bits = float_of(half);
    std::memcpy(values + i * sizeof bits, &bits, sizeof bits);
  }
}

void to_half(const uint8_t* values, size_t count, uint8_t* device) {
  const size_t done = has_conversion() ? to_half_vectors(values, count, device) : 0;
  to_half_portable(values + done * sizeof(float), count - done, device + done * sizeof(uint16_t));
}

void from_half(const uint8_t* device, size_t count, uint8_t* values) {
  const size_t done = has_conversion() ? from_half_vectors(device, count, values) : 0;
  from_half_portable(device + done * sizeof(uint16_t), count - done, values + done * sizeof(float));
}

}  // namespace rk3588
