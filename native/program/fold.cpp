#include <algorithm>
#include <cstring>

#include "program/layout.h"

namespace rk3588 {
namespace {

// An atom as one number: lane i in bits 8 i .. 8 i + 7 (both ends of the product are
// little-endian).
__extension__ typedef unsigned __int128 Lanes;

constexpr size_t kBlockPixels = 32;

Lanes load(const uint8_t* source, size_t bytes) {
  Lanes lanes = 0;
  std::memcpy(&lanes, source, bytes);
  return lanes;
}

Lanes splat(uint8_t value) {
  Lanes lanes;
  std::memset(&lanes, value, sizeof(lanes));
  return lanes;
}

// The first `bytes` lanes.
Lanes mask_of(size_t bytes) {
  return bytes >= kAtomBytes ? ~Lanes{0} : (Lanes{1} << (8 * bytes)) - 1;
}

// Pixels of a device row whose whole window lies between the host's columns: [begin, end).
struct Inner {
  size_t begin;
  size_t end;
};

Inner inner_pixels(const FoldLayout& layout) {
  const Fold& f = layout.fold;
  const size_t begin = std::min<size_t>(layout.width, (f.left + f.step_w - 1) / f.step_w);
  // x * step - left + window <= width
  const size_t reach = size_t{f.width} + f.left;
  const size_t end = reach < f.window_w ? 0 : (reach - f.window_w) / f.step_w + 1;
  return {begin, std::max(begin, std::min(layout.width, end))};
}

// Bytes of a host pixel.
size_t pixel_bytes(const FoldLayout& layout) {
  return layout.fold.channels * facts(layout.device.element).bytes;
}

// The host row of window row `dy`, or nullptr outside the image.
const uint8_t* host_row(const Fold& f, size_t pitch, const uint8_t* host, size_t y, size_t dy) {
  const size_t padded = y * f.step_h + dy;
  if (padded < f.top || padded - f.top >= f.height) return nullptr;
  return host + (padded - f.top) * f.width * pitch;
}

// Any pixel, in the host's order and sign: `lanes` bytes, `outside` where there is no image.
void gather(const FoldLayout& layout, const uint8_t* host, size_t y, size_t x, uint8_t outside,
            uint8_t* lanes) {
  const Fold& f = layout.fold;
  const size_t pitch = pixel_bytes(layout);
  for (size_t dy = 0; dy < f.window_h; ++dy) {
    const uint8_t* row = host_row(f, pitch, host, y, dy);
    for (size_t dx = 0; dx < f.window_w; ++dx, lanes += pitch) {
      const size_t padded = x * f.step_w + dx;
      const bool inside = row != nullptr && padded >= f.left && padded - f.left < f.width;
      if (inside) {
        std::memcpy(lanes, row + (padded - f.left) * pitch, pitch);
      } else {
        std::memset(lanes, outside, pitch);
      }
    }
  }
}

// Up to 16 bytes: every window row is one unaligned load, shifted to its lanes.
class AtomFold {
 public:
  AtomFold(const FoldLayout& layout, const uint8_t* host, size_t readable)
      : layout_(layout),
        f_(layout.fold),
        host_(host),
        end_(host + readable),
        pitch_(pixel_bytes(layout)),
        run_(f_.window_w * pitch_),
        run_mask_(mask_of(run_)),
        flip_(splat(layout.device.flip())),
        fill_(splat(static_cast<uint8_t>(layout.device.fill))),
        inner_(inner_pixels(layout)) {}

  void row(size_t y, uint8_t* device) const {
    for (size_t x = 0; x < inner_.begin; ++x) edge(y, x, device + x * kAtomBytes);
    Lanes rest = fill_;  // what no window row covers: the end of the atom and rows outside
    const uint8_t* sources[kAtomBytes];
    unsigned shifts[kAtomBytes];
    size_t count = 0;
    for (size_t dy = 0; dy < f_.window_h; ++dy) {
      const uint8_t* source = host_row(f_, pitch_, host_, y, dy);
      if (source == nullptr) continue;
      const unsigned shift = static_cast<unsigned>(8 * dy * run_);
      rest &= ~(run_mask_ << shift);
      sources[count] = source + (inner_.begin * f_.step_w - f_.left) * pitch_;
      shifts[count++] = shift;
    }
    const size_t step = f_.step_w * pitch_;
    size_t x = inner_.begin;
    if (count > 0 && inner_.begin < inner_.end) {
      // Whole atoms may be loaded as long as they end within what may be read.
      const size_t room = static_cast<size_t>(end_ - sources[count - 1]);
      const size_t safe = room < kAtomBytes ? 0 : (room - kAtomBytes) / step + 1;
      const size_t stop = std::min(inner_.end, inner_.begin + safe);
      if (count == 2) {
        const unsigned first = shifts[0];
        const unsigned second = shifts[1];
        const uint8_t* a = sources[0];
        const uint8_t* b = sources[1];
        for (; x < stop; ++x, a += step, b += step) {
          Lanes lanes = ((load(a, kAtomBytes) ^ flip_) & run_mask_) << first;
          lanes |= ((load(b, kAtomBytes) ^ flip_) & run_mask_) << second;
          lanes |= rest;
          std::memcpy(device + x * kAtomBytes, &lanes, kAtomBytes);
        }
      } else {
        for (size_t offset = 0; x < stop; ++x, offset += step) {
          Lanes lanes = rest;
          for (size_t i = 0; i < count; ++i) {
            lanes |= ((load(sources[i] + offset, kAtomBytes) ^ flip_) & run_mask_) << shifts[i];
          }
          std::memcpy(device + x * kAtomBytes, &lanes, kAtomBytes);
        }
      }
    }
    for (; x < layout_.width; ++x) edge(y, x, device + x * kAtomBytes);
  }

 private:
  void edge(size_t y, size_t x, uint8_t* atom) const {
    uint8_t pixel[kAtomBytes];
    const Lanes outside = fill_ ^ flip_;
    std::memcpy(pixel, &outside, kAtomBytes);
    gather(layout_, host_, y, x, pixel[0], pixel);
    const Lanes lanes = load(pixel, kAtomBytes) ^ flip_;
    std::memcpy(atom, &lanes, kAtomBytes);
  }

  const FoldLayout& layout_;
  const Fold& f_;
  const uint8_t* host_;
  const uint8_t* end_;
  size_t pitch_;  // bytes of a host pixel
  size_t run_;    // bytes of one window row
  Lanes run_mask_;
  Lanes flip_;
  Lanes fill_;
  Inner inner_;
};

// More bytes: dense pixels of a block first, then the common conversion.
void wide_row(const FoldLayout& layout, const uint8_t* host, size_t y, uint8_t* device) {
  uint8_t block[kBlockPixels * kMaxFoldedLanes];
  const size_t lanes = layout.device.pixel_bytes();
  const uint8_t flip = layout.device.flip();
  const auto outside = static_cast<uint8_t>(static_cast<uint8_t>(layout.device.fill) ^ flip);
  for (size_t begin = 0; begin < layout.width; begin += kBlockPixels) {
    const size_t count = std::min(kBlockPixels, layout.width - begin);
    for (size_t p = 0; p < count; ++p) {
      gather(layout, host, y, begin + p, outside, block + p * lanes);
    }
    ImageLayout part = layout.device;
    part.pixels = count;
    to_device_layout(part, block, count * lanes, device + begin * kAtomBytes);
  }
}

}  // namespace

void to_folded_layout(const FoldLayout& layout, const uint8_t* host, size_t readable,
                      uint8_t* device) {
  const size_t row_bytes = layout.width * kAtomBytes;
  if (layout.device.pixel_bytes() <= kAtomBytes) {
    const AtomFold fold(layout, host, readable);
    for (size_t y = 0; y < layout.height; ++y) fold.row(y, device + y * row_bytes);
    return;
  }
  for (size_t y = 0; y < layout.height; ++y) {
    wide_row(layout, host, y, device + y * row_bytes);
  }
}

}  // namespace rk3588
