#pragma once

#include <cstdint>

#include "span.h"

namespace rk3588 {

// CRC-32 as zlib computes it; `previous` continues the value of the bytes before.
uint32_t crc32(Span<const uint8_t> bytes, uint32_t previous = 0);

}  // namespace rk3588
