#include "program/crc32.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace rk3588 {
namespace {

// CRC-32 tables for eight bytes at a time: entry [k][b] is byte b followed by k zero bytes.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

CrcTables make_crc_tables() {
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

}  // namespace

uint32_t crc32(Span<const uint8_t> bytes, uint32_t previous) {
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
