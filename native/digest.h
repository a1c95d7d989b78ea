// Hashes of bytes; nothing cryptographic.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "span.h"

namespace rk3588 {

// Finds what is likely the same.
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

// CRC-32 tables for eight bytes at a time: entry [k][b] is byte b followed by k zero bytes.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

inline CrcTables make_crc_tables() {
  constexpr uint32_t kReflectedPolynomial = 0xedb88320;
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflectedPolynomial : 0);
    }
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = tables[0][crc & 0xff] ^ (crc >> 8);
    }
  }
  return tables;
}

// As zlib computes it; `previous` continues the value of the bytes before.
inline uint32_t crc32(Span<const uint8_t> bytes, uint32_t previous = 0) {
  static const CrcTables tables = make_crc_tables();
  uint32_t crc = ~previous;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; i < bytes.size(); ++i) crc = tables[0][(crc ^ bytes[i]) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace rk3588
