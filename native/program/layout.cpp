#include "program/layout.h"

#include <algorithm>
#include <cstring>

#include "program/atom.h"

namespace rk3588 {
namespace {

// Pixels per block: all surfaces of a block are converted while its host rows are in the L1 cache.
// Measured: 16 is best or nearly so for 33 to 1024 channels.
constexpr size_t kBlockPixels = 16;
// Surfaces that are converted together: 64 contiguous bytes of a host pixel, a cache line's worth.
constexpr size_t kTogether = 4;

// Pixels from which on a whole atom at byte `first` of a pixel would reach beyond `bytes`.
size_t whole_atom_pixels(const ImageLayout& layout, size_t first, size_t bytes) {
  if (bytes < first + kAtomBytes) return 0;
  return std::min(layout.pixels, (bytes - first - kAtomBytes) / layout.pitch() + 1);
}

// The first `bytes` of the atoms of pixels [begin, end), as two words of which the second may
// overlap the first.
template <typename Word>
void words_from_device(const ImageLayout& layout, const uint8_t* device, size_t begin, size_t end,
                       size_t bytes, uint8_t* host) {
  Word flip;
  std::memset(&flip, layout.flip(), sizeof flip);
  const size_t last = bytes - sizeof(Word);
  const size_t pitch = layout.pitch();
  for (size_t p = begin; p < end; ++p) {
    Word words[2];
    std::memcpy(&words[0], device + p * kAtomBytes, sizeof(Word));
    std::memcpy(&words[1], device + p * kAtomBytes + last, sizeof(Word));
    words[0] ^= flip;
    words[1] ^= flip;
    std::memcpy(host + p * pitch, &words[0], sizeof(Word));
    std::memcpy(host + p * pitch + last, &words[1], sizeof(Word));
  }
}

void parts_from_device(const ImageLayout& layout, const uint8_t* device, size_t begin, size_t end,
                       size_t bytes, uint8_t* host) {
  const auto convert = bytes >= sizeof(uint64_t)   ? words_from_device<uint64_t>
                       : bytes >= sizeof(uint32_t) ? words_from_device<uint32_t>
                       : bytes >= sizeof(uint16_t) ? words_from_device<uint16_t>
                                                   : words_from_device<uint8_t>;
  convert(layout, device, begin, end, bytes, host);
}

}  // namespace

void to_device_layout(const ImageLayout& layout, const uint8_t* host, size_t readable,
                      uint8_t* device) {
  const Atom flip = splat(layout.flip());
  const size_t pitch = layout.pitch();
  const size_t full = layout.pixel_bytes() / kAtomBytes;
  const size_t rest = layout.pixel_bytes() % kAtomBytes;
  const Atom keep = lanes(0, rest);
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
  const size_t pitch = layout.pitch();
  const size_t full = layout.pixel_bytes() / kAtomBytes;
  const size_t rest = layout.pixel_bytes() % kAtomBytes;
  // The gap is not ours to write.
  const bool may_spill = layout.gap == 0;
  const size_t safe = may_spill ? whole_atom_pixels(layout, full * kAtomBytes, writable) : 0;
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
      parts_from_device(layout, source, p, end, rest, target);
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
