// Copies whose source is not needed afterwards: two large copies are never whole in memory at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "span.h"

namespace rk3588 {

// Told of bytes that nobody reads again, or reads from a file again: their memory may go back.
using Spend = void (*)(Span<const uint8_t> bytes);

// So much of a source stays in memory beside its copy.
inline constexpr size_t kSpentBytes = size_t{256} << 10;

// Copies `source` to the beginning of `target`, which is at least as large and 0 behind it then.
// `spend`: told of every piece that was copied; nullptr: of none.
inline void copy_spending(Span<const uint8_t> source, Span<uint8_t> target, Spend spend) {
  for (size_t begin = 0; begin < source.size();) {
    const size_t bytes = std::min(kSpentBytes, source.size() - begin);
    std::memcpy(target.data() + begin, source.data() + begin, bytes);
    if (spend != nullptr) spend(source.subspan(begin, bytes));
    begin += bytes;
  }
  std::memset(target.data() + source.size(), 0, target.size() - source.size());
}

}  // namespace rk3588
