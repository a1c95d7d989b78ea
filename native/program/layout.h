// Feature maps between the host's NHWC and the device's NC1HWC2 (C2 = 16 bytes).
//
//   host    pixel p, channel c        at  p * channels + c
//   device  surface c / 16, pixel p   at  (c / 16) * surface_stride_bytes + p * 16 + c % 16
//
// with int8. Elements of several bytes move as that many channels of one byte. uint8 values are
// stored as int8 value - 128, which flips the top bit. Works on whole 16-byte atoms.
#pragma once

#include <cstddef>
#include <cstdint>

#include "chip/chip_gen.h"
#include "program/program.h"

namespace rk3588 {

// Bytes that a pixel of a folded input may have.
inline constexpr size_t kMaxFoldedLanes = 64;

struct ImageLayout {
  size_t pixels;  // height * width
  size_t channels;
  size_t surface_stride_bytes;  // at least pixels * 16
  Element element;              // of the host
  // Lanes from `channels` on, in the last surface that has channels: the device's value. 0 with
  // elements of several bytes.
  int8_t fill;
  size_t gap = 0;  // host's bytes between pixels, which belong to others

  size_t pitch() const { return pixel_bytes() + gap; }
  size_t pixel_bytes() const { return channels * facts(element).bytes; }
  uint8_t flip() const { return facts(element).flip; }
};

// `host` holds at least pixels * pixel_bytes() bytes, `readable` of them (or more: the next
// image's) may be read. Writes ceil(pixel_bytes() / 16) surfaces of pixels * 16 bytes each, nothing
// between them.
void to_device_layout(const ImageLayout& layout, const uint8_t* host, size_t readable,
                      uint8_t* device);

// `writable` >= pixels * pixel_bytes() bytes from `host` on may be overwritten; those beyond this
// image hold nothing of use afterwards (images are therefore converted in ascending order). With a
// gap: writes no other bytes than the pixels'.
void from_device_layout(const ImageLayout& layout, const uint8_t* device, uint8_t* host,
                        size_t writable);

// An input whose windows of pixels become channels: lane (dy * window_w + dx) * channels + c of
// device pixel (y, x) is host pixel (y * step_h + dy - top, x * step_w + dx - left), channel c;
// outside the host's image the fill. `device.channels` are the folded ones, `device.pixels` =
// height * width of the device's image.
struct FoldLayout {
  ImageLayout device;
  size_t height;
  size_t width;
  Fold fold;
};

// As to_device_layout; `readable` >= the bytes of one host image.
void to_folded_layout(const FoldLayout& layout, const uint8_t* host, size_t readable,
                      uint8_t* device);

// An image whose elements the host has as `spread` says; of several bytes only to the device.
struct SpreadLayout {
  ImageLayout device;
  size_t height;
  size_t width;
  Spread spread;
};

// `host`: where element (0, 0, 0) of the image is; what `spread` reaches from there may be read.
void to_device_spread(const SpreadLayout& layout, const uint8_t* host, uint8_t* device);

// Writes no other bytes than those of the image.
void from_device_spread(const SpreadLayout& layout, const uint8_t* device, uint8_t* host);

}  // namespace rk3588
