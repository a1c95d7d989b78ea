// Feature maps between the host's NHWC and the device's NC1HWC2 (C2 = 16 bytes).
//
//   host    pixel p, channel c        at  p * channels + c
//   device  surface c / 16, pixel p   at  (c / 16) * surface_stride_bytes + p * 16 + c % 16
//
// uint8 values are stored as int8 value - 128, which flips the top bit. Works on whole 16-byte
// atoms.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rk3588 {

inline constexpr size_t kAtomBytes = 16;

struct ImageLayout {
  size_t pixels;  // height * width
  size_t channels;
  size_t surface_stride_bytes;  // at least pixels * 16
  bool is_uint8;
  int8_t fill;  // lanes from `channels` on, in the last surface that has channels; device value
};

// `host` holds at least pixels * channels bytes, `readable` of them (or more: the next image's) may
// be read. Writes ceil(channels / 16) surfaces of pixels * 16 bytes each, nothing between them.
void to_device_layout(const ImageLayout& layout, const uint8_t* host, size_t readable,
                      uint8_t* device);

// `writable` >= pixels * channels bytes from `host` on may be overwritten; those beyond this image
// hold nothing of use afterwards (images are therefore converted in ascending order).
void from_device_layout(const ImageLayout& layout, const uint8_t* device, uint8_t* host,
                        size_t writable);

}  // namespace rk3588
