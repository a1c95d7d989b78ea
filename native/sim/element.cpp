#include "sim/element.h"

#include <cmath>

namespace rk3588::sim {
namespace {

constexpr int kMantissaBits = 10;
constexpr int kExponentMax = 31;
constexpr int kBias = 15;

}  // namespace

float half_to_float(uint16_t half) {
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = half >> kMantissaBits & kExponentMax;
  const int mantissa = half & 0x3ff;
  if (exponent == kExponentMax) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits);
  return sign * std::ldexp(static_cast<float>(mantissa | 0x400), exponent - kBias - kMantissaBits);
}

uint16_t float_to_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  const double magnitude = std::fabs(static_cast<double>(value));
  // 65520 lies half way between the largest half and the next power: it rounds to infinity.
  if (magnitude >= 65520.0) return static_cast<uint16_t>(sign | 0x7c00);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The unit in the last place; at least that of subnormal numbers.
  int unit = exponent - 1 - kMantissaBits;
  if (magnitude == 0 || unit < 1 - kBias - kMantissaBits) unit = 1 - kBias - kMantissaBits;
  auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // 2048 steps carry into the next exponent, which the sum below does by itself.
  const uint32_t base = static_cast<uint32_t>(unit + kBias + kMantissaBits - 1) << kMantissaBits;
  return static_cast<uint16_t>(sign | (base + steps));
}

}  // namespace rk3588::sim
