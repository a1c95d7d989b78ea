#include <algorithm>
#include <cstring>

#include "program/atom.h"
#include "program/layout.h"

namespace rk3588 {
namespace {

constexpr size_t kMaxAtoms = kMaxFoldedLanes / kAtomBytes;

// Pixels of a device row: [begin, end).
struct Pixels {
  size_t begin;
  size_t end;
};

// What one window row gives to one atom: lanes that `keep` selects of device pixel x are host bytes
// `first` + x * step and following, in the atom's order.
struct Part {
  ptrdiff_t first;
  Atom keep;
};

// One atom of every pixel of a device row: its parts and `rest` by exclusive or, which turns the
// sign of the host's bytes and fills the other lanes.
struct AtomParts {
  Part parts[kAtomBytes];
  size_t count = 0;
  Atom rest;
};

// Atoms of `pixels` pixels from the two parts at `a` and `b`; with kAdds to what is there.
template <bool kAdds>
void join(const uint8_t* a, Atom keep_a, const uint8_t* b, Atom keep_b, Atom rest, size_t step,
          size_t pixels, uint8_t* target) {
  for (size_t x = 0; x < pixels; ++x, a += step, b += step, target += kAtomBytes) {
    store(target, (kAdds ? load(target) : rest) ^ (load(a) & keep_a) ^ (load(b) & keep_b));
  }
}

// Of an atom's 16 bytes, those of a window row are one unaligned load that begins where the atom's
// first lane would be: nothing is shifted.
class Folding {
 public:
  Folding(const FoldLayout& layout, const uint8_t* host, size_t readable)
      : layout_(layout),
        f_(layout.fold),
        host_(host),
        readable_(static_cast<ptrdiff_t>(readable)),
        pitch_(f_.channels * facts(layout.device.element).bytes),
        run_(f_.window_w * pitch_),
        step_(static_cast<ptrdiff_t>(f_.step_w * pitch_)),
        lanes_(layout.device.pixel_bytes()),
        flip_(splat(layout.device.flip())),
        fill_(splat(static_cast<uint8_t>(layout.device.fill))),
        inside_(inside_pixels()) {}

  void row(size_t y, uint8_t* device) const {
    AtomParts atoms[kMaxAtoms];
    Pixels quick = inside_;
    const size_t count = (lanes_ + kAtomBytes - 1) / kAtomBytes;
    for (size_t i = 0; i < count; ++i) {
      find_parts(y, i * kAtomBytes, &atoms[i]);
      for (size_t p = 0; p < atoms[i].count; ++p) limit(atoms[i].parts[p], &quick);
    }
    for (size_t x = 0; x < quick.begin; ++x) edge(y, x, device);
    for (size_t i = 0; i < count; ++i) {
      uint8_t* surface = device + i * layout_.device.surface_stride_bytes;
      join_parts(atoms[i], quick, surface + quick.begin * kAtomBytes);
    }
    for (size_t x = quick.end; x < layout_.width; ++x) edge(y, x, device);
  }

 private:
  // Pixels whose whole window lies between the host's columns.
  Pixels inside_pixels() const {
    const size_t begin = std::min<size_t>(layout_.width, (f_.left + f_.step_w - 1) / f_.step_w);
    // x * step - left + window <= width
    const size_t reach = size_t{f_.width} + f_.left;
    const size_t end = reach < f_.window_w ? 0 : (reach - f_.window_w) / f_.step_w + 1;
    return {begin, std::max(begin, std::min(layout_.width, end))};
  }

  // Whether window row `dy` lies in the host's image.
  bool has_row(size_t y, size_t dy) const {
    const size_t padded = y * f_.step_h + dy;
    return padded >= f_.top && padded - f_.top < f_.height;
  }

  // Where on the host the window of pixel (y, 0) begins in row `dy`; negative where that is
  // padding.
  ptrdiff_t window_row(size_t y, size_t dy) const {
    const size_t row = y * f_.step_h + dy - f_.top;
    return static_cast<ptrdiff_t>(row * f_.width * pitch_) -
           static_cast<ptrdiff_t>(f_.left * pitch_);
  }

  // Of the atom that begins with byte `first` of a device pixel.
  void find_parts(size_t y, size_t first, AtomParts* atom) const {
    Atom covered{};
    for (size_t dy = 0; dy < f_.window_h; ++dy) {
      const size_t begin = std::max(first, dy * run_);
      const size_t end = std::min(first + kAtomBytes, (dy + 1) * run_);
      if (begin >= end || !has_row(y, dy)) continue;
      Part& part = atom->parts[atom->count++];
      part.first =
          window_row(y, dy) + static_cast<ptrdiff_t>(first) - static_cast<ptrdiff_t>(dy * run_);
      part.keep = lanes(begin - first, end - first);
      covered |= part.keep;
    }
    atom->rest = (flip_ & covered) | (fill_ & ~covered);
  }

  // Leaves those pixels whose loads stay within what may be read: nearly always all of them.
  void limit(const Part& part, Pixels* pixels) const {
    const auto at = [&](size_t x) { return part.first + static_cast<ptrdiff_t>(x) * step_; };
    while (pixels->begin < pixels->end && at(pixels->begin) < 0) ++pixels->begin;
    const auto most = readable_ - static_cast<ptrdiff_t>(kAtomBytes);
    while (pixels->end > pixels->begin && at(pixels->end - 1) > most) --pixels->end;
  }

  void join_parts(const AtomParts& atom, Pixels pixels, uint8_t* target) const {
    const size_t count = pixels.end - pixels.begin;
    const auto begin = static_cast<ptrdiff_t>(pixels.begin) * step_;
    for (size_t x = 0; atom.count == 0 && x < count; ++x) {
      store(target + x * kAtomBytes, atom.rest);
    }
    for (size_t p = 0; count > 0 && p < atom.count; p += 2) {
      const bool is_pair = p + 1 < atom.count;
      const Part& one = atom.parts[p];
      const Part& two = atom.parts[is_pair ? p + 1 : p];
      (p == 0 ? join<false> : join<true>)(host_ + (begin + one.first), one.keep,
                                          host_ + (begin + two.first), is_pair ? two.keep : Atom{},
                                          atom.rest, static_cast<size_t>(step_), count, target);
    }
  }

  // Any pixel, without a byte beside its own.
  void edge(size_t y, size_t x, uint8_t* device) const {
    uint8_t pixel[kMaxFoldedLanes];
    for (size_t i = 0; i < kMaxFoldedLanes; i += kAtomBytes) store(pixel + i, fill_ ^ flip_);
    // Columns of the window that the host has.
    const size_t left = x * f_.step_w;
    const size_t right = size_t{f_.width} + f_.left;
    const size_t begin = left < f_.left ? f_.left - left : 0;
    const size_t end = left < right ? std::min<size_t>(f_.window_w, right - left) : 0;
    for (size_t dy = 0; begin < end && dy < f_.window_h; ++dy) {
      if (!has_row(y, dy)) continue;
      const uint8_t* row =
          host_ + (window_row(y, dy) + static_cast<ptrdiff_t>((left + begin) * pitch_));
      std::memcpy(pixel + dy * run_ + begin * pitch_, row, (end - begin) * pitch_);
    }
    uint8_t* target = device + x * kAtomBytes;
    for (size_t i = 0; i < lanes_; i += kAtomBytes) {
      store(target, load(pixel + i) ^ flip_);
      target += layout_.device.surface_stride_bytes;
    }
  }

  const FoldLayout& layout_;
  const Fold& f_;
  const uint8_t* host_;
  ptrdiff_t readable_;
  size_t pitch_;    // bytes of a host pixel
  size_t run_;      // of a window row
  ptrdiff_t step_;  // to the window of the next device pixel
  size_t lanes_;    // bytes of a device pixel
  Atom flip_;
  Atom fill_;
  Pixels inside_;
};

}  // namespace

void to_folded_layout(const FoldLayout& layout, const uint8_t* host, size_t readable,
                      uint8_t* device) {
  const Folding folding(layout, host, readable);
  for (size_t y = 0; y < layout.height; ++y) {
    folding.row(y, device + y * layout.width * kAtomBytes);
  }
}

}  // namespace rk3588
