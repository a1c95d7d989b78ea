#include "program/binding_conversion.h"

#include <algorithm>

#include "program/host_values.h"

namespace rk3588 {
namespace {

// Values in a block: 16 KiB of fp32 and 8 of fp16, which an L1 cache of 32 holds.
constexpr size_t kBlockValues = 4096;
// Pixels in a block are a multiple of so many: the layout's own blocks.
constexpr size_t kPixels = 16;

SpreadLayout spread_layout(const Binding& binding, const Box& box) {
  return {image_layout(binding, box), box.height, box.width, box.spread};
}

// The size of an image whose elements lie side by side on the host, with the device's values.
size_t image_bytes(const Binding& binding, const Box& box) {
  return box.image_elements() * facts(binding.laid_out()).bytes;
}

// Whether the host's pixels and the device's follow each other in the same order.
bool has_blocks(const Binding& binding) {
  const Box& box = binding.boxes.front();
  return binding.is_converted() && !box.is_spread && !box.is_folded();
}

size_t block_pixels(const Box& box) {
  const size_t pixels = std::max<size_t>(1, kBlockValues / kPixels / box.channels) * kPixels;
  return std::min(pixels, size_t{box.height} * box.width);
}

// The host's tensor, with the device's values, to a box on the device.
void lay_out(const Binding& binding, const Box& box, const uint8_t* host, uint8_t* device) {
  const ImageLayout layout = image_layout(binding, box);
  const size_t bytes = image_bytes(binding, box);
  for (size_t n = 0; n < box.images; ++n, device += box.image_stride_bytes) {
    const uint8_t* image = host + n * bytes;
    if (box.is_spread) {
      const size_t size = facts(binding.laid_out()).bytes;
      const uint8_t* first = host + (box.spread.first + n * box.spread.image) * size;
      to_device_spread(spread_layout(binding, box), first, device);
    } else if (box.is_folded()) {
      to_folded_layout({layout, box.height, box.width, box.fold}, image, (box.images - n) * bytes,
                       device);
    } else {
      to_device_layout(layout, image, (box.images - n) * bytes, device);
    }
  }
}

// And back.
void take_back(const Binding& binding, const Box& box, const uint8_t* device, uint8_t* host) {
  const ImageLayout layout = image_layout(binding, box);
  const size_t bytes = image_bytes(binding, box);
  for (size_t n = 0; n < box.images; ++n, device += box.image_stride_bytes) {
    if (box.is_spread) {
      uint8_t* first = host + box.spread.first + n * box.spread.image;
      from_device_spread(spread_layout(binding, box), device, first);
    } else {
      from_device_layout(layout, device, host + n * bytes, (box.images - n) * bytes);
    }
  }
}

void to_device_values(const Binding& binding, QuantizeRule rule, const uint8_t* host, size_t count,
                      uint8_t* values) {
  if (binding.is_affine()) return quantize(binding.affine, rule, host, count, values);
  if (binding.is_half()) return to_half(host, count, values);
  look_up(binding.table.data(), host, count, values);
}

void to_host_values(const Binding& binding, const uint8_t* values, size_t count, uint8_t* host) {
  if (binding.is_half()) return from_half(values, count, host);
  dequantize(binding.affine, values, count, host);
}

// Calls each(layout of a block, its elements, its first element on the host, its first byte on the
// device).
template <typename Each>
void for_blocks(const Binding& binding, Each&& each) {
  const Box& box = binding.boxes.front();
  ImageLayout layout = image_layout(binding, box);
  const size_t pixels = layout.pixels;
  const size_t most = block_pixels(box);
  for (size_t n = 0; n < box.images; ++n) {
    const size_t device = box.offset + n * box.image_stride_bytes;
    for (size_t first = 0; first < pixels; first += most) {
      layout.pixels = std::min(most, pixels - first);
      each(layout, layout.pixels * box.channels, (n * pixels + first) * box.channels,
           device + first * kAtomBytes);
    }
  }
}

}  // namespace

ImageLayout image_layout(const Binding& binding, const Box& box) {
  return {size_t{box.height} * box.width, box.channels,
          static_cast<size_t>(box.surface_stride_bytes), binding.laid_out(), box.fill};
}

size_t bytes_between(const Binding& binding) {
  if (!binding.is_converted()) return 0;
  const size_t size = facts(binding.laid_out()).bytes;
  if (!has_blocks(binding)) return binding.elements() * size;
  const Box& box = binding.boxes.front();
  // Atoms that begin in a block's last pixels end behind it.
  return block_pixels(box) * box.channels * size + kAtomBytes;
}

void to_device(const Binding& binding, QuantizeRule rule, const uint8_t* host, uint8_t* between,
               uint8_t* device) {
  if (!has_blocks(binding)) {
    if (binding.is_converted()) {
      to_device_values(binding, rule, host, binding.elements(), between);
      host = between;
    }
    for (const Box& box : binding.boxes) lay_out(binding, box, host, device + box.offset);
    return;
  }
  const size_t size = facts(binding.element).bytes;
  const size_t room = bytes_between(binding);
  for_blocks(binding, [&](const ImageLayout& layout, size_t count, size_t first, size_t offset) {
    to_device_values(binding, rule, host + first * size, count, between);
    to_device_layout(layout, between, room, device + offset);
  });
}

void from_device(const Binding& binding, const uint8_t* device, uint8_t* between, uint8_t* host) {
  if (!has_blocks(binding)) {
    uint8_t* const values = binding.is_converted() ? between : host;
    for (const Box& box : binding.boxes) take_back(binding, box, device + box.offset, values);
    if (binding.is_converted()) to_host_values(binding, values, binding.elements(), host);
    return;
  }
  const size_t size = facts(binding.element).bytes;
  const size_t room = bytes_between(binding);
  for_blocks(binding, [&](const ImageLayout& layout, size_t count, size_t first, size_t offset) {
    from_device_layout(layout, device + offset, between, room);
    to_host_values(binding, between, count, host + first * size);
  });
}

}  // namespace rk3588
