// Rounding and saturation of integers, as the stages of the DPU do it and for sizes.
#pragma once

#include <cstdint>
#include <limits>

namespace rk3588::sim {

constexpr uint64_t ceil_div(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }
constexpr uint32_t align_up(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

// value / 2^shift rounded to nearest, ties to even. |value| < 2^62, shift <= 63.
inline int64_t shift_half_even(int64_t value, uint32_t shift) {
  if (shift == 0) return value;
  if (shift > 62) return 0;
  const int64_t floor = value >> shift;
  const int64_t rest = value & ((int64_t{1} << shift) - 1);
  const int64_t half = int64_t{1} << (shift - 1);
  return floor + (rest > half || (rest == half && (floor & 1) != 0) ? 1 : 0);
}

// The same, ties away from zero.
inline int64_t shift_half_away(int64_t value, uint32_t shift) {
  if (shift == 0) return value;
  if (shift > 62) return 0;
  const int64_t magnitude = value < 0 ? -value : value;
  const int64_t rounded = (magnitude + (int64_t{1} << (shift - 1))) >> shift;
  return value < 0 ? -rounded : rounded;
}

// The same, ties up: no stage is known to do so, but chips were reported to.
inline int64_t shift_half_up(int64_t value, uint32_t shift) {
  if (shift == 0) return value;
  if (shift > 62) return 0;
  return (value + (int64_t{1} << (shift - 1))) >> shift;
}

enum class Ties { kEven, kAway, kUp };

inline int64_t shift_rounded(int64_t value, uint32_t shift, Ties ties) {
  switch (ties) {
    case Ties::kAway:
      return shift_half_away(value, shift);
    case Ties::kUp:
      return shift_half_up(value, shift);
    default:
      return shift_half_even(value, shift);
  }
}

inline int64_t shift_rounded(int64_t value, uint32_t shift, bool half_away) {
  return shift_rounded(value, shift, half_away ? Ties::kAway : Ties::kEven);
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
