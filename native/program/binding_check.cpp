#include "program/binding_check.h"

#include <cmath>
#include <utility>

#include "program/layout.h"

namespace rk3588 {
namespace {

constexpr size_t kByteValues = 256;
constexpr uint32_t kMaxFold = 1 << 12;  // steps and offsets: far above real ones

// A host image has at most kMaxBufferBytes, a window at most kMaxFoldedLanes.
void check_fold(const Binding& binding, const Box& box) {
  const Fold& fold = box.fold;
  uint32_t all = 0;
  for (const auto member : kFoldMembers) all |= fold.*member;
  if (all == 0) return;
  require(box.buffer == BufferId::kInput, "a tensor is folded, which only inputs can be");
  require(fold.height > 0 && fold.width > 0 && fold.channels > 0 && fold.window_h > 0 &&
              fold.window_w > 0 && fold.step_h > 0 && fold.step_w > 0,
          "a tensor has an impossible fold");
  require(fold.window_h <= kMaxFoldedLanes && fold.window_w <= kMaxFoldedLanes &&
              fold.channels <= kMaxFoldedLanes && fold.step_h <= kMaxFold &&
              fold.step_w <= kMaxFold && fold.top <= kMaxFold && fold.left <= kMaxFold &&
              fold.height <= kMaxBufferBytes && fold.width <= kMaxBufferBytes,
          "a tensor has an impossible fold");
  const uint64_t lanes = uint64_t{fold.window_h} * fold.window_w * fold.channels;
  const uint64_t bytes = lanes * facts(binding.laid_out()).bytes;
  require(lanes == box.channels && bytes <= kMaxFoldedLanes, "a tensor's fold and channels differ");
  require(uint64_t{fold.height} * fold.width <= kMaxBufferBytes / fold.channels,
          "a tensor's shape is too large");
}

// No size is above kMaxBufferBytes.
void check_spread(const Binding& binding, const Box& box, uint64_t elements) {
  const bool is_narrow = facts(binding.laid_out()).bytes == 1;
  require(!box.is_folded() && (is_narrow || box.buffer == BufferId::kInput),
          "a tensor has an impossible spread");
  for (const auto member : kSpreadMembers) {
    require(box.spread.*member <= kMaxBufferBytes, "a tensor has an impossible spread");
  }
  const Spread& spread = box.spread;
  uint64_t room = elements;
  require(spread.first < room, "a tensor's box reaches beyond it");
  room -= spread.first + 1;
  const std::pair<uint64_t, uint64_t> steps[] = {{box.images, spread.image},
                                                 {box.height, spread.row},
                                                 {box.width, spread.pixel},
                                                 {box.channels, spread.channel}};
  for (const auto& [size, stride] : steps) {
    require((size - 1) * stride <= room, "a tensor's box reaches beyond it");
    room -= (size - 1) * stride;
  }
}

}  // namespace

// The device has int8 wherever the host has other values.
void check_values(const Binding& binding) {
  const Affine& affine = binding.affine;
  require(binding.table.empty() ||
              (binding.table.size() == kByteValues && facts(binding.element).bytes == 1 &&
               !binding.is_affine() && binding.boxes.front().buffer == BufferId::kInput),
          "a tensor has an impossible table");
  if (!binding.is_affine()) return;
  const bool is_unsigned = affine.element == Element::kUint8;
  const int32_t least = is_unsigned ? 0 : INT8_MIN;
  require(binding.element == Element::kFp32 && !std::signbit(affine.scale) &&
              std::isfinite(affine.scale) && (is_unsigned || affine.element == Element::kInt8) &&
              affine.zero_point >= least &&
              affine.zero_point < least + static_cast<int32_t>(kByteValues),
          "a tensor has an impossible quantisation");
}

bool is_same_tensor(const Binding& one, const Binding& other) {
  return one.tensor == other.tensor && one.name == other.name && one.shape == other.shape &&
         one.element == other.element && one.affine.scale == other.affine.scale &&
         one.affine.zero_point == other.affine.zero_point &&
         one.affine.element == other.affine.element && one.table == other.table &&
         one.boxes.front().is_spread && other.boxes.front().is_spread;
}

// Boxes have as many elements as their tensor, each at most kMaxBufferBytes. Of an input the device
// may have some several times.
void check_boxes(const Binding& binding) {
  const Box& first = binding.boxes.front();
  if (!first.is_spread || (first.buffer == BufferId::kInput && binding.boxes.size() > 1)) return;
  uint64_t elements = 0;
  for (const Box& box : binding.boxes) elements += box.images * box.image_elements();
  require(elements == binding.elements(), "a tensor's boxes do not make it");
}

// Every factor is checked against the buffer's size before it is multiplied, so nothing
// overflows.
uint64_t check_extent(const Binding& binding, const Box& box, uint64_t buffer_bytes) {
  require(binding.tensor >= 0, "a tensor index is negative");
  require(box.images > 0 && box.height > 0 && box.width > 0 && box.channels > 0,
          "a tensor is empty");
  require(box.images <= buffer_bytes && box.height <= buffer_bytes && box.width <= buffer_bytes &&
              box.channels <= buffer_bytes && box.surfaces <= buffer_bytes &&
              box.offset <= buffer_bytes && box.surface_stride_bytes <= buffer_bytes &&
              box.image_stride_bytes <= buffer_bytes,
          "a tensor exceeds its buffer");
  const uint64_t bytes = facts(binding.laid_out()).bytes;
  require(bytes == 1 || box.fill == 0, "a tensor's fill is wider than a byte");
  require(box.surfaces >= (box.channels * bytes + kAtomBytes - 1) / kAtomBytes,
          "a tensor has too few surfaces for its channels");
  const uint64_t pixels = uint64_t{box.height} * box.width;
  require(pixels <= buffer_bytes / kAtomBytes, "a tensor exceeds its buffer");
  require(box.surface_stride_bytes % kAtomBytes == 0 && box.image_stride_bytes % kAtomBytes == 0 &&
              box.offset % kAtomBytes == 0,
          "a tensor is not aligned to 16 bytes");
  require(box.surfaces == 1 || box.surface_stride_bytes >= pixels * kAtomBytes,
          "a tensor's surfaces overlap");
  // Products below 2^60 + 2^30: each factor is at most 2^30.
  const uint64_t image_bytes =
      uint64_t{box.surfaces - 1} * box.surface_stride_bytes + pixels * kAtomBytes;
  require(image_bytes <= buffer_bytes, "a tensor exceeds its buffer");
  require(box.images == 1 || box.image_stride_bytes >= image_bytes, "a tensor's images overlap");
  const uint64_t extent =
      box.offset + uint64_t{box.images - 1} * box.image_stride_bytes + image_bytes;
  require(extent <= buffer_bytes, "a tensor exceeds its buffer");

  check_fold(binding, box);
  uint64_t elements = 1;
  for (const int32_t dimension : binding.shape) {
    require(dimension > 0, "a tensor's shape is not positive");
    require(elements <= kMaxBufferBytes, "a tensor's shape is too large");
    elements *= static_cast<uint64_t>(dimension);
  }
  if (box.is_spread) {
    check_spread(binding, box, elements);
  } else {
    require(elements == uint64_t{box.images} * box.image_elements(),
            "a tensor's shape and device size differ");
  }
  return extent;
}

}  // namespace rk3588
