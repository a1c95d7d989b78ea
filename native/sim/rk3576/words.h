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

struct Expected {
  uint16_t offset;
  uint32_t dense;
  uint32_t depthwise;
};

template <size_t N>
void require_constants(const BlockView& v, const Expected (&constants)[N], bool is_depthwise) {
  for (const Expected& item : constants) {
    require_word(v, item.offset, is_depthwise ? item.depthwise : item.dense);
  }
}

}  // namespace rk3588::sim::rk3576
