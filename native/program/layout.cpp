#include "program/layout.h"

#include <algorithm>
#include <cstring>

namespace rk3588 {
namespace {

// One atom as the compiler's 16-byte vector: SSE2 and NEON registers alike.
using Atom = uint8_t __attribute__((vector_size(kAtomBytes)));

// Pixels per block: all surfaces of a block are converted while its host rows are in the L1 cache.
// Measured: 16 is best or nearly so for 33 to 1024 channels.
constexpr size_t kBlockPixels = 16;
// Surfaces that are converted together: 64 contiguous bytes of a host pixel, a cache line's worth.
constexpr size_t kTogether = 4;

Atom load(const uint8_t* source) {
  Atom atom;
  std::memcpy(&atom, source, kAtomBytes);
  return atom;
}

void store(uint8_t* target, Atom atom) { std::memcpy(target, &atom, kAtomBytes); }

Atom splat(uint8_t value) {
  Atom atom;
  std::memset(&atom, value, kAtomBytes);
  return atom;
}

// Lanes below `count` are 0xff.
Atom lanes_below(size_t count) {
  Atom mask = splat(0);
  std::memset(&mask, 0xff, count);
  return mask;
}

// Pixels from which on a whole atom at byte `first` of a pixel would reach beyond `bytes`.
size_t whole_atom_pixels(const ImageLayout& layout, size_t first, size_t bytes) {
  if (bytes < first + kAtomBytes) return 0;
  return std::min(layout.pixels, (bytes - first - kAtomBytes) / layout.pixel_bytes() + 1);
}

}  // namespace

void to_device_layout(const ImageLayout& layout, const uint8_t* host, size_t readable,
                      uint8_t* device) {
  const Atom flip = splat(layout.flip());
  const size_t pitch = layout.pixel_bytes();
  const size_t full = pitch / kAtomBytes;
  const size_t rest = pitch % kAtomBytes;
  const Atom keep = lanes_below(rest);
  const Atom fill = splat(static_cast<uint8_t>(layout.fill)) & ~keep;
  const size_t safe = whole_atom_pixels(layout, full * kAtomBytes, readable);
  for (size_t begin = 0; begin < layout.pixels; begin += kBlockPixels) {
    const size_t end = std::min(layout.pixels, begin + kBlockPixels);
    for (size_t surface = 0; surface < full; ++surface) {
      const uint8_t* source = host + surface * kAtomBytes;
      uint8_t* target = device + surface * layout.surface_stride_bytes;
      for (size_t p = begin; p < end; ++p) {
        store(target + p * kAtomBytes, load(source + p * pitch) ^ flip);
      }
    }
    if (rest == 0) continue;
    const uint8_t* source = host + full * kAtomBytes;
    uint8_t* target = device + full * layout.surface_stride_bytes;
    size_t p = begin;
    for (; p < std::min(end, safe); ++p) {
      const Atom atom = load(source + p * pitch) ^ flip;
      store(target + p * kAtomBytes, (atom & keep) | fill);
    }
    for (; p < end; ++p) {  // the last few pixels of the tensor: read no byte beyond it
      Atom atom = splat(0);
      std::memcpy(&atom, source + p * pitch, rest);
      store(target + p * kAtomBytes, ((atom ^ flip) & keep) | fill);
    }
  }
}

void from_device_layout(const ImageLayout& layout, const uint8_t* device, uint8_t* host,
                        size_t writable) {
  const Atom flip = splat(layout.flip());
  const size_t pitch = layout.pixel_bytes();
  const size_t full = pitch / kAtomBytes;
  const size_t rest = pitch % kAtomBytes;
  const size_t safe = whole_atom_pixels(layout, full * kAtomBytes, writable);
  for (size_t begin = 0; begin < layout.pixels; begin += kBlockPixels) {
    const size_t end = std::min(layout.pixels, begin + kBlockPixels);
    // The partial surface first and in ascending order: a whole atom spills into the next pixels'
    // low channels, which are written afterwards (by the full surfaces, a later pixel or the next
    // block).
    if (rest != 0) {
      const uint8_t* source = device + full * layout.surface_stride_bytes;
      uint8_t* target = host + full * kAtomBytes;
      size_t p = begin;
      for (; p < std::min(end, safe); ++p) {
        store(target + p * pitch, load(source + p * kAtomBytes) ^ flip);
      }
      for (; p < end; ++p) {
        const Atom atom = load(source + p * kAtomBytes) ^ flip;
        std::memcpy(target + p * pitch, &atom, rest);
      }
    }
    size_t surface = 0;
    for (; surface + kTogether <= full; surface += kTogether) {
      const uint8_t* source = device + surface * layout.surface_stride_bytes;
      uint8_t* target = host + surface * kAtomBytes;
      for (size_t p = begin; p < end; ++p) {
        for (size_t s = 0; s < kTogether; ++s) {
          const uint8_t* atom = source + s * layout.surface_stride_bytes + p * kAtomBytes;
          store(target + p * pitch + s * kAtomBytes, load(atom) ^ flip);
        }
      }
    }
    for (; surface < full; ++surface) {
      const uint8_t* source = device + surface * layout.surface_stride_bytes;
      uint8_t* target = host + surface * kAtomBytes;
      for (size_t p = begin; p < end; ++p) {
        store(target + p * pitch, load(source + p * kAtomBytes) ^ flip);
      }
    }
  }
}

}  // namespace rk3588
