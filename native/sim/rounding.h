// Rounding and saturation of integers, as the stages of the DPU do it and for sizes.
#pragma once

#include <cstdint>
#include <limits>

namespace rk3588::sim {

constexpr uint64_t ceil_div(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }
constexpr uint32_t align_up(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

// How a number half way between two others is rounded; with kToZero and kDown any between two.
// No stage is known to do these or kUp, but chips were reported to.
enum class Ties { kEven, kAway, kUp, kToZero, kDown };

// value / 2^shift rounded to nearest. |value| < 2^62, shift <= 63.
inline int64_t shift_rounded(int64_t value, uint32_t shift, Ties ties) {
  if (shift == 0) return value;
  if (shift > 62) return 0;
  const int64_t half = int64_t{1} << (shift - 1);
  switch (ties) {
    case Ties::kUp:
      return (value + half) >> shift;
    case Ties::kAway:
      return (value + half - (value < 0 ? 1 : 0)) >> shift;
    case Ties::kToZero:
      return value < 0 ? -(-value >> shift) : value >> shift;
    case Ties::kDown:
      return value >> shift;
    default:
      return (value + half - 1 + (value >> shift & 1)) >> shift;
  }
}

inline int32_t saturate32(int64_t value) {
  if (value > std::numeric_limits<int32_t>::max()) return std::numeric_limits<int32_t>::max();
  if (value < std::numeric_limits<int32_t>::min()) return std::numeric_limits<int32_t>::min();
  return static_cast<int32_t>(value);
}

inline int8_t saturate8(int64_t value) {
  if (value > 127) return 127;
  if (value < -128) return -128;
  return static_cast<int8_t>(value);
}

}  // namespace rk3588::sim
