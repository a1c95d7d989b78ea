#include <algorithm>
#include <cstring>

#include "program/layout.h"

namespace rk3588 {
namespace {

constexpr size_t kBlock = 8;  // pixels and lanes that are turned round at a time

// Exchanges, in each of pairs of rows `apart`, the bytes beside the diagonal that `mask` keeps.
void exchange(uint64_t (&rows)[kBlock], size_t apart, uint64_t mask) {
  for (size_t i = 0; i < kBlock; ++i) {
    if ((i & apart) != 0) continue;
    const uint64_t bits = ((rows[i] >> (8 * apart)) ^ rows[i + apart]) & mask;
    rows[i + apart] ^= bits;
    rows[i] ^= bits << (8 * apart);
  }
}

// Byte j of row i becomes byte i of row j.
void turn(uint64_t (&rows)[kBlock]) {
  exchange(rows, 1, 0x00ff00ff00ff00ff);
  exchange(rows, 2, 0x0000ffff0000ffff);
  exchange(rows, 4, 0x00000000ffffffff);
}

// `count` rows of 8 bytes, `source_stride` apart, become 8 rows of `count`, `target_stride` apart.
void turn_block(const uint8_t* source, size_t source_stride, uint8_t* target, size_t target_stride,
                uint64_t flip) {
  uint64_t rows[kBlock];
  for (size_t i = 0; i < kBlock; ++i) std::memcpy(&rows[i], source + i * source_stride, kBlock);
  turn(rows);
  for (size_t i = 0; i < kBlock; ++i) {
    rows[i] ^= flip;
    std::memcpy(target + i * target_stride, &rows[i], kBlock);
  }
}

uint64_t repeated(uint8_t byte) { return byte * uint64_t{0x0101010101010101}; }

// One row of pixels, in units that fit the loops below.
struct Row {
  size_t pixels;
  size_t channels;
  size_t surface_stride;
  size_t pixel;    // host's, to the next pixel
  size_t channel;  // and channel
  uint8_t flip;

  const uint8_t* device(const uint8_t* base, size_t p, size_t c) const {
    return base + c / kAtomBytes * surface_stride + p * kAtomBytes + c % kAtomBytes;
  }
  uint8_t* device(uint8_t* base, size_t p, size_t c) const {
    return base + c / kAtomBytes * surface_stride + p * kAtomBytes + c % kAtomBytes;
  }
  size_t host(size_t p, size_t c) const { return p * pixel + c * channel; }

  bool is_turned() const { return pixel == 1 && channel != 1; }
  bool is_dense() const { return channel == 1 && (pixel == channels || pixels == 1); }
};

// Calls block(p, c) for whole blocks of 8 by 8 where the host has pixels side by side, and
// one(p, c) for every element outside of them.
template <typename Block, typename One>
void for_elements(const Row& row, Block&& block, One&& one) {
  const size_t blocks = row.is_turned() ? row.pixels / kBlock * kBlock : 0;
  for (size_t c = 0; c < row.channels;) {
    const bool is_whole = blocks > 0 && c + kBlock <= row.channels;
    const size_t lanes = is_whole ? kBlock : 1;
    size_t p = 0;
    if (is_whole) {
      for (; p < blocks; p += kBlock) block(p, c);
    }
    for (size_t k = 0; k < lanes; ++k) {
      for (size_t q = p; q < row.pixels; ++q) one(q, c + k);
    }
    c += lanes;
  }
}

void row_to_device(const Row& row, const uint8_t* host, uint8_t* device) {
  for_elements(
      row,
      [&](size_t p, size_t c) {
        turn_block(host + row.host(p, c), row.channel, row.device(device, p, c), kAtomBytes,
                   repeated(row.flip));
      },
      [&](size_t p, size_t c) {
        *row.device(device, p, c) = static_cast<uint8_t>(host[row.host(p, c)] ^ row.flip);
      });
}

void row_from_device(const Row& row, const uint8_t* device, uint8_t* host) {
  for_elements(
      row,
      [&](size_t p, size_t c) {
        turn_block(row.device(device, p, c), kAtomBytes, host + row.host(p, c), row.channel,
                   repeated(row.flip));
      },
      [&](size_t p, size_t c) {
        host[row.host(p, c)] = static_cast<uint8_t>(*row.device(device, p, c) ^ row.flip);
      });
}

// Pixels side by side on the host whose channels are, too: `used` bytes of every `pitch`.
void pixels_from_device(const Row& row, const uint8_t* device, uint8_t* host) {
  const uint64_t flip = repeated(row.flip);
  for (size_t c = 0; c < row.channels; c += kAtomBytes) {
    const size_t used = std::min(kAtomBytes, row.channels - c);
    for (size_t p = 0; p < row.pixels; ++p) {
      uint64_t atom[2];
      std::memcpy(atom, row.device(device, p, c), kAtomBytes);
      atom[0] ^= flip;
      atom[1] ^= flip;
      std::memcpy(host + row.host(p, c), atom, used);
    }
  }
}

void fill_lanes(const ImageLayout& layout, uint8_t* device) {
  const size_t used = layout.channels % kAtomBytes;
  if (used == 0) return;
  uint8_t* atom = device + layout.channels / kAtomBytes * layout.surface_stride_bytes;
  for (size_t p = 0; p < layout.pixels; ++p, atom += kAtomBytes) {
    std::memset(atom + used, static_cast<uint8_t>(layout.fill), kAtomBytes - used);
  }
}

// Calls each(row, device offset, host offset): for all rows at once where they follow each other.
template <typename Each>
void for_rows(const SpreadLayout& layout, Each&& each) {
  const Spread& spread = layout.spread;
  const bool is_one = layout.height == 1 || spread.row == layout.width * spread.pixel;
  const size_t rows = is_one ? 1 : layout.height;
  const size_t pixels = is_one ? layout.device.pixels : layout.width;
  const ImageLayout& device = layout.device;
  const Row row{pixels,
                device.channels,
                device.surface_stride_bytes,
                pixels == 1 ? 1 : spread.pixel,
                device.channels == 1 ? 1 : spread.channel,
                device.flip()};
  for (size_t y = 0; y < rows; ++y) {
    each(row, y * layout.width * kAtomBytes, y * spread.row);
  }
}

}  // namespace

void to_device_spread(const SpreadLayout& layout, const uint8_t* host, uint8_t* device) {
  for_rows(layout, [&](const Row& row, size_t device_offset, size_t host_offset) {
    if (!row.is_dense()) return row_to_device(row, host + host_offset, device + device_offset);
    ImageLayout part = layout.device;
    part.pixels = row.pixels;
    to_device_layout(part, host + host_offset, part.pixels * part.channels, device + device_offset);
  });
  fill_lanes(layout.device, device);
}

void from_device_spread(const SpreadLayout& layout, const uint8_t* device, uint8_t* host) {
  for_rows(layout, [&](const Row& row, size_t device_offset, size_t host_offset) {
    const uint8_t* source = device + device_offset;
    uint8_t* target = host + host_offset;
    if (row.is_dense()) {
      ImageLayout part = layout.device;
      part.pixels = row.pixels;
      from_device_layout(part, source, target, part.pixels * part.channels);
    } else if (row.channel == 1) {
      pixels_from_device(row, source, target);
    } else {
      row_from_device(row, source, target);
    }
  });
}

}  // namespace rk3588
