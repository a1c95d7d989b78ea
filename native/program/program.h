// A serialised Program (delegate/npu/program.fbs) after full verification.
//
// In: bytes of any origin. Out: plain values that every later stage may trust. Refuses, with one
// line, whatever is not exactly a Program of this version: offsets, counts, alignment, checksum,
// relocation targets, task ranges and the extent of every bound tensor.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "chip/chip_gen.h"
#include "host/device.h"
#include "span.h"

namespace rk3588 {

// The one format that this version writes and reads.
inline constexpr uint32_t kProgramFormatVersion = 7;

class ProgramError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ProgramBuffer {
  uint64_t size = 0;
  Span<const uint8_t> content;  // a view into the program's bytes; the rest up to `size` is zero
};

struct Reloc {
  uint32_t word;  // index of the 64-bit regcmd word in the REGCMD buffer
  uint32_t buffer;
  uint64_t addend;
};

struct ProgramTask {
  uint32_t regcmd_offset = 0;
  uint32_t regcmd_count = 0;
  uint32_t enable_mask = 0;
  uint32_t layer = 0;
  uint32_t job = 0;
  std::string tile;
  std::string form;  // names, separated by spaces
};

// How the host spreads windows of pixels over channels (Fold of delegate/lower/lowered.py).
struct Fold {
  uint32_t height = 0;  // of the host's image; 0: not folded
  uint32_t width = 0;
  uint32_t channels = 0;
  uint32_t window_h = 0;
  uint32_t window_w = 0;
  uint32_t step_h = 0;
  uint32_t step_w = 0;
  uint32_t top = 0;
  uint32_t left = 0;
};
// In the order of the fields of program.fbs.
inline constexpr uint32_t Fold::* kFoldMembers[] = {
    &Fold::height, &Fold::width,  &Fold::channels, &Fold::window_h, &Fold::window_w,
    &Fold::step_h, &Fold::step_w, &Fold::top,      &Fold::left};

// float32 on the host: scale * (q - zero_point), q of type `element` (Affine of
// delegate/lower/lowered.py).
struct Affine {
  float scale = 0;  // 0: the host has q itself
  int32_t zero_point = 0;
  Element element = Element::kInt8;

  // By its bits: where subnormals are flushed one is equal to 0.
  bool is_given() const {
    uint32_t bits;
    std::memcpy(&bits, &scale, sizeof bits);
    return bits != 0;
  }
};

// Where the host has the elements of a box: (image n, row y, column x, channel c) is its tensor's
// byte first + n * image + y * row + x * pixel + c * channel (Spread of delegate/lower/lowered.py).
struct Spread {
  uint64_t first = 0;
  uint64_t image = 0;
  uint64_t row = 0;
  uint64_t pixel = 0;
  uint64_t channel = 0;
};
// In the order of the fields of program.fbs.
inline constexpr uint64_t Spread::* kSpreadMembers[] = {
    &Spread::first, &Spread::image, &Spread::row, &Spread::pixel, &Spread::channel};

// Images of a tensor at the partition's edge, or of a box of it: NC1HWC2 (atoms of 16 bytes) on the
// device.
struct Box {
  uint32_t images = 0;
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t channels = 0;
  uint32_t surfaces = 0;
  uint64_t surface_stride_bytes = 0;
  uint64_t image_stride_bytes = 0;
  BufferId buffer = BufferId::kInput;
  uint64_t offset = 0;
  int8_t fill = 0;
  Fold fold;
  bool is_spread = false;  // otherwise all of the host's tensor, dense NHWC
  Spread spread;

  bool is_folded() const { return fold.height != 0; }
  size_t image_elements() const {
    return is_folded() ? size_t{fold.height} * fold.width * fold.channels
                       : size_t{height} * width * channels;
  }
};

// A tensor at the partition's edge.
struct Binding {
  int32_t tensor = -1;
  std::string name;
  std::vector<int32_t> shape;
  Element element = Element::kInt8;  // of the host
  std::vector<Box> boxes;            // one that is not spread, or some that make the tensor
  Affine affine;
  std::vector<uint8_t> table;  // of an input: the device's byte for each of the host's; or empty

  bool is_affine() const { return affine.is_given(); }
  // The host has fp32, the device fp16.
  bool is_half() const { return element == Element::kFp32 && !is_affine(); }
  // Whether the device has other values than the host, not only in another order.
  bool is_converted() const { return is_affine() || is_half() || !table.empty(); }
  Element laid_out() const {
    if (is_half()) return Element::kFp16;
    return is_converted() ? Element::kInt8 : element;
  }
  size_t elements() const {
    size_t product = 1;
    for (const int32_t dimension : shape) product *= static_cast<size_t>(dimension);
    return product;
  }
  size_t host_bytes() const { return elements() * facts(element).bytes; }
};

struct Program {
  const Chip* chip = nullptr;  // that it was compiled for
  std::string id;              // a word that stands for its bytes: their checksum and number
  std::string compiler;
  std::string name;
  std::array<ProgramBuffer, kBufferCount> buffers;
  std::vector<Reloc> relocs;
  std::vector<std::string> layers;
  std::vector<ProgramTask> tasks;
  std::vector<Binding> inputs;
  std::vector<Binding> outputs;
};

// Verifies everything; throws ProgramError. `bytes` must outlive the contents of the result's
// buffers.
Program read_program(Span<const uint8_t> bytes);

}  // namespace rk3588
