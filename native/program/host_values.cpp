#include "program/host_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "chip/chip_gen.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace rk3588 {
namespace {

// Converted together: what the loops below hold between their steps stays in the L1 cache.
constexpr size_t kBlock = 512;

constexpr float kTwoTo31 = 2147483648.0f;
// Below it no sum with a zero point wraps.
constexpr float kTwoTo30 = 1073741824.0f;

// A number far from every int32.
int32_t beyond_int32(QuantizeRule rule, float steps) {
  if (!rule.saturates) return INT32_MIN;
  if (std::isnan(steps)) return 0;
  return steps > 0 ? INT32_MAX : INT32_MIN;
}

// Halves away from zero. The difference from the whole part is exact.
int32_t round_away(float value) {
  const auto whole = static_cast<int32_t>(value);
  const float rest = value - static_cast<float>(whole);
  return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

struct Limits {
  int32_t low;
  int32_t high;
};

Limits limits_of(Element element) {
  return element == Element::kUint8 ? Limits{0, UINT8_MAX} : Limits{INT8_MIN, INT8_MAX};
}

// As the kernels do it, also for what is no int32.
uint8_t any_byte(const Affine& affine, QuantizeRule rule, const Limits& limits, float steps) {
  const bool is_int32 = std::fabs(steps) < kTwoTo31;
  const int32_t near = is_int32 ? round_away(steps) : beyond_int32(rule, steps);
  const auto whole = static_cast<uint32_t>(near);
  // Unsigned: the kernels' sum wraps.
  const auto sum = static_cast<int32_t>(whole + static_cast<uint32_t>(affine.zero_point));
  return static_cast<uint8_t>(std::min(std::max(sum, limits.low), limits.high));
}

// Not 0 where a sum with a zero point may wrap, or there is no int32.
int make_steps(QuantizeRule rule, float scale, size_t count, float* values) {
  if (rule.multiplies) {
    const float reciprocal = 1.0f / scale;
    for (size_t i = 0; i < count; ++i) values[i] *= reciprocal;
  } else {
    for (size_t i = 0; i < count; ++i) values[i] /= scale;
  }
  int far = 0;
  for (size_t i = 0; i < count; ++i) far |= static_cast<int>(!(std::fabs(values[i]) < kTwoTo30));
  return far;
}

#if defined(__aarch64__)

constexpr uint64_t kFlushToZero = uint64_t{1} << 24;  // FPCR.FZ

uint64_t float_control() {
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}

constexpr size_t kLanes = 16;

// fcvtas rounds halves away from zero and saturates, as the kernels' code does on this processor.
template <bool kMultiplies>
int32x4_t to_whole(const uint8_t* values, float32x4_t factor, int32x4_t zero_point) {
  const float32x4_t x = vreinterpretq_f32_u8(vld1q_u8(values));
  const float32x4_t steps = kMultiplies ? vmulq_f32(x, factor) : vdivq_f32(x, factor);
  return vaddq_s32(vcvtaq_s32_f32(steps), zero_point);  // wraps
}

template <bool kMultiplies>
size_t quantize_vectors(const Affine& affine, const uint8_t* values, size_t count,
                        uint8_t* device) {
  constexpr size_t kQuarter = 4 * sizeof(float);
  const float32x4_t factor = vdupq_n_f32(kMultiplies ? 1.0f / affine.scale : affine.scale);
  const int32x4_t zero = vdupq_n_s32(affine.zero_point);
  const uint8x16_t flip = vdupq_n_u8(facts(affine.element).flip);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const uint8_t* from = values + i * sizeof(float);
    int16x8_t half[2];
    for (auto& levels : half) {
      const int32x4_t low = to_whole<kMultiplies>(from, factor, zero);
      const int32x4_t high = to_whole<kMultiplies>(from + kQuarter, factor, zero);
      levels = vcombine_s16(vqmovn_s32(low), vqmovn_s32(high));
      from += 2 * kQuarter;
    }
    const uint8x16_t bytes =
        affine.element == Element::kUint8
            ? vcombine_u8(vqmovun_s16(half[0]), vqmovun_s16(half[1]))
            : vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(half[0]), vqmovn_s16(half[1])));
    vst1q_u8(device + i, veorq_u8(bytes, flip));
  }
  return i;
}

#endif

}  // namespace

// GCC lets 1 / scale out of the kernel's loop where a library is built with
// -funsafe-math-optimizations, and for the same option links a constructor into it that makes the
// loading thread, and those that it starts, flush subnormals: that tells one from the other.
QuantizeRule quantize_rule() {
#if defined(__aarch64__)
  return {(float_control() & kFlushToZero) != 0, true};
#elif defined(__arm__)
  return {false, true};
#else
  return {false, false};
#endif
}

void quantize(const Affine& affine, QuantizeRule rule, const uint8_t* values, size_t count,
              uint8_t* device) {
  size_t done = 0;
#if defined(__aarch64__)
  if (rule.saturates) {
    done = rule.multiplies ? quantize_vectors<true>(affine, values, count, device)
                           : quantize_vectors<false>(affine, values, count, device);
  }
#endif
  quantize_portable(affine, rule, values + done * sizeof(float), count - done, device + done);
}

void quantize_portable(const Affine& affine, QuantizeRule rule, const uint8_t* values, size_t count,
                       uint8_t* device) {
  const Limits limits = limits_of(affine.element);
  // Limits before rounding are the same as after it, since they are whole.
  const auto low = static_cast<float>(limits.low - affine.zero_point);
  const auto high = static_cast<float>(limits.high - affine.zero_point);
  const auto zero_point = static_cast<uint8_t>(affine.zero_point);
  const uint8_t flip = facts(affine.element).flip;
  float steps[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    uint8_t* const target = device + begin;
    std::memcpy(steps, values + begin * sizeof(float), size * sizeof(float));
    if (make_steps(rule, affine.scale, size, steps) != 0) {
      for (size_t i = 0; i < size; ++i) target[i] = any_byte(affine, rule, limits, steps[i]) ^ flip;
      continue;
    }
    for (size_t i = 0; i < size; ++i) {
      const float limited = steps[i] < low ? low : steps[i] > high ? high : steps[i];
      target[i] = static_cast<uint8_t>(round_away(limited) + zero_point) ^ flip;
    }
  }
}

void dequantize(const Affine& affine, const uint8_t* device, size_t count, uint8_t* values) {
  const float scale = affine.scale;
  const uint8_t flip = facts(affine.element).flip;
  // The int8 on the device is 128 less than the uint8.
  const int32_t zero_point = affine.zero_point - flip;
  static_assert(facts(Element::kUint8).flip == 128 && facts(Element::kInt8).flip == 0);
  float results[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    const uint8_t* const source = device + begin;
    for (size_t i = 0; i < size; ++i) {
      const int32_t value = static_cast<int8_t>(source[i]);
      results[i] = static_cast<float>(value - zero_point) * scale;
    }
    std::memcpy(values + begin * sizeof(float), results, size * sizeof(float));
  }
}

void look_up(const uint8_t* table, const uint8_t* host, size_t count, uint8_t* device) {
  for (size_t i = 0; i < count; ++i) device[i] = table[host[i]];
}

}  // namespace rk3588
