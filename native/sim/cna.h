// CNA: what a convolution task reads (features, weights) and how it walks over them.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "chip/chip_gen.h"
#include "sim/element.h"
#include "sim/memory.h"
#include "sim/register_file.h"
#include "sim/rounding.h"

namespace rk3588::sim {

struct FeatureCube {
  uint64_t address = 0;
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t channels = 0;  // a multiple of the lanes
  uint32_t lanes = 16;    // channels of a surface
  uint64_t line_pitch = 0;
  uint64_t surface_pitch = 0;
  uint32_t surfaces() const { return channels / lanes; }
};

// Pixels of 1 to 4 channels that follow each other without padding (ARGB_IN).
struct PackedPixels {
  bool is_on = false;
  uint32_t channels = 0;
};

// Zeros ("pads") between the pixels of a transposed convolution's input.
struct Deconvolution {
  bool is_on = false;
  uint32_t stride_h = 1;
  uint32_t stride_w = 1;
};

// The input converter; only with packed pixels.
struct InputConverter {
  bool is_on = false;
  bool is_signed = false;
  bool add_first = false;
  Ties ties = Ties::kEven;
  uint32_t channels = 0;  // one bit per lane that is converted
  int16_t scale[4] = {};
  int16_t offset[4] = {};
  uint32_t shift[4] = {};
};

struct WeightBlock {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t bytes_per_kernel = 0;
  uint32_t kh = 0;
  uint32_t kw = 0;
  uint32_t kernels = 0;  // 1 for depthwise
};

// The lanes in which weights hold a rest of input channels: a power of two times a surface's
// channels, so that 48 of int8 take 64 and 24 of fp16 take 32.
inline uint32_t stored_lanes(uint32_t rest, uint32_t surface_lanes) {
  uint32_t stored = rest == 0 ? 0 : surface_lanes;
  while (stored < rest) stored *= 2;
  return stored;
}

struct CbufPlan {
  uint32_t data_banks = 0;
  uint32_t weight_banks = 0;
  uint32_t entries_per_row = 0;
  bool data_reuse = false;
  bool weight_reuse = false;
  // The registers that faults name.
  uint16_t banks_register = regs::cna::cbuf_con0::kOffset;
  uint16_t entries_register = regs::cna::cbuf_con1::kOffset;
};

struct CnaConfig {
  const Chip* chip = &kRk3588;
  Element element = Element::kInt8;
  PackedPixels packed;
  Deconvolution deconv;
  InputConverter converter;
  FeatureCube feature;  // as in memory; behind expand_features() as the MAC array sees it
  WeightBlock weights;
  CbufPlan cbuf;
  uint32_t grains = 0;  // rows that are fetched before anything is computed
  bool is_depthwise = false;
  uint32_t stride_h = 1;
  uint32_t stride_w = 1;
  uint32_t dilation_h = 1;
  uint32_t dilation_w = 1;
  uint32_t pad_top = 0;
  uint32_t pad_left = 0;
  // Value of padding pixels in even and odd channel lanes.
  int8_t pad_even = 0;
  int8_t pad_odd = 0;
  uint16_t pad_half = 0;  // fp16
  uint32_t out_height = 0;
  uint32_t out_width = 0;

  // Rows of the window's reach from its first row; columns alike.
  uint32_t reach_h() const { return (weights.kh - 1) * dilation_h + 1; }
  uint32_t reach_w() const { return (weights.kw - 1) * dilation_w + 1; }
  // Rows and columns of the input as in memory with what a transposed convolution inserts.
  uint32_t virtual_height() const { return (feature.height - 1) * deconv.stride_h + 1; }
  uint32_t virtual_width() const { return (feature.width - 1) * deconv.stride_w + 1; }
  // Kernels or channels of a weight group.
  uint32_t group() const {
    return (is_depthwise ? chip->depthwise_channels : chip->dense_kernels) / element_bytes(element);
  }
  // Input channels that the weights of a tap have in memory, the lanes of the last group included.
  uint32_t stored_channels() const {
    const uint32_t group_channels = is_depthwise ? group() : chip->input_lanes;
    const uint32_t rest = feature.channels % group_channels;
    return feature.channels - rest + stored_lanes(rest, feature.lanes);
  }
  // The first lane of the pixel that tap (ky, kx) of output (y, x) meets; nullptr: padding.
  const int8_t* pixel(const int8_t* cube, uint32_t y, uint32_t x, uint32_t ky, uint32_t kx) const {
    const int64_t iy = int64_t{y} * stride_h + int64_t{ky} * dilation_h - pad_top;
    const int64_t ix = int64_t{x} * stride_w + int64_t{kx} * dilation_w - pad_left;
    const bool inside = iy >= 0 && iy < feature.height && ix >= 0 && ix < feature.width;
    return inside ? cube + iy * feature.line_pitch + ix * kAtomBytes : nullptr;
  }
  int8_t pad(uint32_t channel) const { return (channel & 1) != 0 ? pad_odd : pad_even; }
  // Whether an output channel has a kernel; those that complete a group have none.
  bool has_kernel(uint32_t channel) const {
    return channel < (is_depthwise ? feature.channels : weights.kernels);
  }
  // Calls see(pixel or nullptr, first, end, ky, kx) for the input channels [first, end) of each tap
  // and weight group that an output sums, in the order of the weights.
  template <typename See>
  void for_window(const int8_t* cube, uint32_t channel, uint32_t y, uint32_t x, See see) const {
    if (!has_kernel(channel)) return;
    const uint32_t end = is_depthwise ? channel + 1 : feature.channels;
    for (uint32_t i = is_depthwise ? channel : 0; i < end; i += chip->input_lanes) {
      for (uint32_t ky = 0; ky < weights.kh; ++ky) {
        for (uint32_t kx = 0; kx < weights.kw; ++kx) {
          see(pixel(cube, y, x, ky, kx), i, std::min(end, i + chip->input_lanes), ky, kx);
        }
      }
    }
  }
  // A pixel of padding in one surface; all surfaces have the same.
  std::array<int8_t, kAtomBytes> pad_atom() const;
};

// Reads and checks the registers; throws Fault.
CnaConfig decode_cna(const BlockView& view, const Chip& chip);

// Its input side beyond int8 cubes (cna_input.cpp): element types, packed pixels with their
// converter, and the pixels that a transposed convolution inserts.
Element decode_cna_element(const BlockView& view);
PackedPixels decode_packed(const BlockView& view);
Deconvolution decode_deconvolution(const BlockView& view);
InputConverter decode_converter(const BlockView& view, const CnaConfig& config);
// Pitches of packed pixels: LINE_STRIDE counts pixels, rows are aligned to whole atoms of them
// (16 pixels, fp16 8).
void decode_packed_feature(const BlockView& view, const CnaConfig& config, FeatureCube* feature);

// Makes an ordinary cube of packed pixels (converted, lanes without a channel 0) and of a
// transposed convolution's input (pads between the pixels): writes it to `memory`, sets `*feature`
// to it and changes config->feature. Nothing happens for other inputs.
void expand_features(CnaConfig* config, const int8_t** feature, std::vector<int8_t>* memory);

// Offset in bytes of the weight of (output channel o, input channel i, ky, kx). Dense: in
// [O/G][I/L][kh][kw][G o][L i], G kernels of a group and L input lanes (RK3588: 32 and 32, of fp16
// 16 and 32); depthwise, whose only channel is o: in [C/G][kh][kw][G], G channels (RK3588: 64, of
// fp16 32). The last groups hold what is left: kernels as they are, lanes as stored_lanes() says.
uint64_t weight_offset(const CnaConfig& cna, uint32_t o, uint32_t i, uint32_t ky, uint32_t kx);

}  // namespace rk3588::sim
