#include "program/host_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "chip/chip_gen.h"

namespace rk3588 {
namespace {

// Converted together: what the loops below hold between their steps stays in the L1 cache.
constexpr size_t kBlock = 512;

constexpr float kTwoTo31 = 2147483648.0f;

// The kernels convert with the processor's instruction, whose answer to what is no int32 differs.
int32_t beyond_int32(float value) {
#if defined(__aarch64__) || defined(__arm__)
  if (std::isnan(value)) return 0;
  return value > 0 ? INT32_MAX : INT32_MIN;
#else
  static_cast<void>(value);
  return INT32_MIN;
#endif
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
uint8_t any_byte(const Affine& affine, const Limits& limits, float steps) {
  const bool is_int32 = std::fabs(steps) < kTwoTo31;
  const auto whole = static_cast<uint32_t>(is_int32 ? round_away(steps) : beyond_int32(steps));
  // Unsigned: the kernels' sum wraps.
  const auto sum = static_cast<int32_t>(whole + static_cast<uint32_t>(affine.zero_point));
  return static_cast<uint8_t>(std::min(std::max(sum, limits.low), limits.high));
}

}  // namespace

void quantize(const Affine& affine, const uint8_t* values, size_t count, uint8_t* device) {
  const Limits limits = limits_of(affine.element);
  const float scale = affine.scale;
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
    int beyond = 0;
    for (size_t i = 0; i < size; ++i) {
      steps[i] /= scale;
      beyond |= static_cast<int>(!(std::fabs(steps[i]) < kTwoTo31));
    }
    if (beyond != 0) {
      for (size_t i = 0; i < size; ++i) target[i] = any_byte(affine, limits, steps[i]) ^ flip;
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
  // Of the int8 on the device: 128 less than of uint8.
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
