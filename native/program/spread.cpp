#include <algorithm>
#include <cstring>

#include "program/atom.h"
#include "program/layout.h"

namespace rk3588 {
namespace {

constexpr size_t kBlock = kAtomBytes;  // pixels and lanes that are turned round at a time

constexpr size_t kHalf = kBlock / 2;

void zip_rows(const Atom (&rows)[kHalf], Atom (&zipped)[kHalf]) {
  for (size_t i = 0; i < kHalf / 2; ++i) {
    zipped[2 * i] = zip_low(rows[i], rows[i + kHalf / 2]);
    zipped[2 * i + 1] = zip_high(rows[i], rows[i + kHalf / 2]);
  }
}

template <bool kUpper, typename At, typename Put>
void turn_half(At&& at, Put&& put) {
  Atom rows[kHalf];
  Atom zipped[kHalf];
  for (size_t i = 0; i < kHalf; ++i) {
    rows[i] = (kUpper ? zip_high : zip_low)(load(at(i)), load(at(i + kHalf)));
  }
  zip_rows(rows, zipped);
  zip_rows(zipped, rows);
  zip_rows(rows, zipped);
  for (size_t i = 0; i < kHalf; ++i) put(kUpper ? i + kHalf : i, zipped[i]);
}

// Calls put(j, row j) of the rows that have as lane i what is lane j at at(i). Half of it at a
// time, which registers hold.
template <typename At, typename Put>
void turn(At&& at, Put&& put) {
  turn_half<false>(at, put);
  turn_half<true>(at, put);
}

// Pixels that follow each other at one distance on the host.
struct Row {
  ImageLayout image;
  size_t pixel;    // bytes of the host to the next pixel
  size_t channel;  // and to the next channel

  uint8_t flip() const { return image.flip(); }
  size_t surface(size_t c) const { return c / kAtomBytes * image.surface_stride_bytes; }
  size_t device(size_t p, size_t c) const { return surface(c) + p * kAtomBytes + c % kAtomBytes; }
  size_t host(size_t p, size_t c) const { return p * pixel + c * channel; }
  bool has_pixels() const { return channel == 1 && pixel >= image.channels; }
  bool has_blocks() const { return pixel == 1 && image.pixels >= kBlock; }
};

// Calls block(first pixel, first channel, channels) for all of the row's blocks of pixels side by
// side; the last one may overlap the one before it.
template <typename Block>
void for_blocks(const Row& row, Block&& block) {
  const size_t last = row.image.pixels - kBlock;
  for (size_t c = 0; c < row.image.channels; c += kBlock) {
    const size_t used = std::min(kBlock, row.image.channels - c);
    for (size_t p = 0; p < row.image.pixels; p += kBlock) block(std::min(p, last), c, used);
  }
}

template <typename One>
void for_elements(const Row& row, One&& one) {
  for (size_t c = 0; c < row.image.channels; ++c) {
    for (size_t p = 0; p < row.image.pixels; ++p) one(row.device(p, c), row.host(p, c));
  }
}

void fill_lanes(const ImageLayout& layout, uint8_t* device) {
  const size_t used = layout.pixel_bytes() % kAtomBytes;
  if (used == 0) return;
  uint8_t* atom = device + layout.pixel_bytes() / kAtomBytes * layout.surface_stride_bytes;
  for (size_t p = 0; p < layout.pixels; ++p, atom += kAtomBytes) {
    std::memset(atom + used, static_cast<uint8_t>(layout.fill), kAtomBytes - used);
  }
}

void row_to_device(const Row& row, const uint8_t* host, uint8_t* device) {
  if (row.has_blocks()) {
    const Atom flip = splat(row.flip());
    uint8_t filled[kAtomBytes];
    store(filled, splat(static_cast<uint8_t>(row.image.fill)) ^ flip);
    return for_blocks(row, [&](size_t p, size_t c, size_t used) {
      const uint8_t* source = host + row.host(p, c);
      uint8_t* target = device + row.device(p, c);
      turn([&](size_t i) { return i < used ? source + i * row.channel : filled; },
           [&](size_t j, Atom atom) { store(target + j * kAtomBytes, atom ^ flip); });
    });
  }
  fill_lanes(row.image, device);
  for_elements(row, [&](size_t at, size_t from) {
    device[at] = static_cast<uint8_t>(host[from] ^ row.flip());
  });
}

void row_from_device(const Row& row, const uint8_t* device, uint8_t* host) {
  if (row.has_blocks()) {
    const Atom flip = splat(row.flip());
    return for_blocks(row, [&](size_t p, size_t c, size_t used) {
      const uint8_t* source = device + row.device(p, c);
      uint8_t* target = host + row.host(p, c);
      turn([&](size_t i) { return source + i * kAtomBytes; },
           [&](size_t j, Atom atom) {
             if (j < used) store(target + j * row.channel, atom ^ flip);
           });
    });
  }
  for_elements(row, [&](size_t from, size_t at) {
    host[at] = static_cast<uint8_t>(device[from] ^ row.flip());
  });
}

// Calls each(row, its bytes on the host, device offset, host offset): for all rows at once where
// they follow each other.
template <typename Each>
void for_rows(const SpreadLayout& layout, Each&& each) {
  const Spread& spread = layout.spread;
  const bool is_one = layout.height == 1 || spread.row == layout.width * spread.pixel;
  const size_t rows = is_one ? 1 : layout.height;
  Row row{layout.device, spread.pixel, spread.channel};
  row.image.pixels = is_one ? layout.device.pixels : layout.width;
  if (row.image.channels == 1) row.channel = 1;
  if (row.image.pixels == 1) row.pixel = row.image.channels;
  if (row.has_pixels()) row.image.gap = row.pixel - row.image.channels;
  for (size_t y = 0; y < rows; ++y) {
    each(row, y * layout.width * kAtomBytes, y * spread.row);
  }
}

// Elements of several bytes, one by one: matrices that are packed as weights.
void wide_to_device(const SpreadLayout& layout, const uint8_t* host, uint8_t* device) {
  const size_t size = facts(layout.device.element).bytes;
  const Spread& spread = layout.spread;
  fill_lanes(layout.device, device);
  for (size_t p = 0; p < layout.device.pixels; ++p) {
    const size_t first = p / layout.width * spread.row + p % layout.width * spread.pixel;
    for (size_t c = 0; c < layout.device.channels; ++c) {
      const size_t byte = c * size;
      const size_t surface = byte / kAtomBytes * layout.device.surface_stride_bytes;
      std::memcpy(device + surface + p * kAtomBytes + byte % kAtomBytes,
                  host + (first + c * spread.channel) * size, size);
    }
  }
}

size_t host_bytes(const ImageLayout& image) {
  return (image.pixels - 1) * image.pitch() + image.channels;
}

}  // namespace

void to_device_spread(const SpreadLayout& layout, const uint8_t* host, uint8_t* device) {
  if (facts(layout.device.element).bytes > 1) return wide_to_device(layout, host, device);
  for_rows(layout, [&](const Row& row, size_t device_offset, size_t host_offset) {
    const uint8_t* source = host + host_offset;
    uint8_t* target = device + device_offset;
    if (row.has_pixels()) {
      to_device_layout(row.image, source, host_bytes(row.image), target);
    } else {
      row_to_device(row, source, target);
    }
  });
}

void from_device_spread(const SpreadLayout& layout, const uint8_t* device, uint8_t* host) {
  for_rows(layout, [&](const Row& row, size_t device_offset, size_t host_offset) {
    const uint8_t* source = device + device_offset;
    uint8_t* target = host + host_offset;
    if (row.has_pixels()) {
      from_device_layout(row.image, source, target, host_bytes(row.image));
    } else {
      row_from_device(row, source, target);
    }
  });
}

}  // namespace rk3588
