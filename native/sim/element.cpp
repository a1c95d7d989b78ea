#include "sim/element.h"

#include <cmath>

namespace rk3588::sim {
namespace {

constexpr int kMantissaBits = 10;
// Bits of fp32's mantissa beyond those of fp16.
constexpr int kMoreBits = 23 - kMantissaBits;
// The difference between the biases of both exponents, 127 and 15.
constexpr uint32_t kBiases = 112;
constexpr uint16_t kInfinity = 0x7c00;
constexpr uint16_t kNan = 0x7e00;
constexpr float kUnit = 5.9604644775390625e-8f;     // 2^-24, of subnormal numbers
constexpr float kSmallestNormal = 6.103515625e-5f;  // 2^-14

}  // namespace

float half_to_float(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude > kInfinity) return NAN;
  if (magnitude == kInfinity) return float_of_bits(sign | 0x7f800000u);
  if (magnitude >> kMantissaBits == 0) {
    const float number = static_cast<float>(magnitude) * kUnit;
    return float_of_bits(sign | bits_of_float(number));
  }
  return float_of_bits(sign | ((magnitude << kMoreBits) + (kBiases << 23)));
}

uint16_t float_to_half(float value) {
  if (std::isnan(value)) return kNan;
  const uint32_t bits = bits_of_float(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const float magnitude = std::fabs(value);
  // 65520 lies half way between the largest half and the next power: it rounds to infinity.
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | kInfinity);
  if (magnitude < kSmallestNormal) {
    // The last place of 0.5 is the unit of subnormal numbers.
    const uint32_t units = bits_of_float(magnitude + 0.5f) - bits_of_float(0.5f);
    return static_cast<uint16_t>(sign | units);
  }
  const uint32_t low = bits_of_float(magnitude) - (kBiases << 23);
  // To nearest, ties to even; a carry goes into the exponent by itself.
  const uint32_t odd = low >> kMoreBits & 1;
  return static_cast<uint16_t>(sign | (low + (1u << (kMoreBits - 1)) - 1 + odd) >> kMoreBits);
}

}  // namespace rk3588::sim
