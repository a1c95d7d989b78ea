// Whole registers of RK3576 that are known as numbers.
#pragma once

#include "sim/register_file.h"
#include "sim/rounding.h"

namespace rk3588::sim::rk3576 {

inline constexpr uint32_t kLeast = 0x80000000;
inline constexpr uint32_t kLargest = 0x7fffffff;
inline constexpr uint32_t kScalarBytes = 16;  // of a number in memory for all channels
inline void require_word(const BlockView& v, uint16_t offset, uint32_t expected) {
  const uint32_t found = v.word(offset);
  if (found == expected) return;
  v.fault(fault::kUnsupportedFeature, offset, "is ", hex(found),
          " but every known program of this kind has ", hex(expected));
}

}  // namespace rk3588::sim::rk3576
