// A hash of bytes that finds what is likely the same; nothing cryptographic.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "span.h"

namespace rk3588 {

inline uint64_t digest_of(Span<const uint8_t> bytes, uint64_t seed) {
  constexpr size_t kLanes = 4;  // so that multiplications need not wait for each other
  const auto mixed = [](uint64_t digest, uint64_t word) {
    // Odd, with about as many ones as zeros: 2^64 divided by the golden ratio.
    const uint64_t product = (digest ^ word) * 0x9E3779B97F4A7C15;
    return product ^ (product >> 32);
  };
  std::array<uint64_t, kLanes> lanes = {seed, ~seed, seed + 1, ~seed - 1};
  size_t position = 0;
  for (; position + sizeof(lanes) <= bytes.size(); position += sizeof(lanes)) {
    std::array<uint64_t, kLanes> words;
    std::memcpy(words.data(), bytes.data() + position, sizeof(words));
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mixed(lanes[lane], words[lane]);
  }
  uint64_t result = bytes.size();
  for (; position < bytes.size(); ++position) result = mixed(result, bytes.data()[position]);
  for (const uint64_t lane : lanes) result = mixed(result, lane);
  return result;
}

}  // namespace rk3588
