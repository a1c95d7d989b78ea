// Operand cubes of DPU_RDMA: notches behind rows and surfaces, unpooling.
#include <algorithm>
#include <cstring>

#include "sim/rdma.h"

namespace rk3588::sim {
namespace {

namespace r = regs::dpu_rdma;

OperandShape shape_of(OperandShape s, uint32_t height, uint32_t width, uint64_t line_notch,
                      int64_t notch) {
  s.height = height;
  s.width = width;
  s.line_pitch = (width + line_notch) * kAtomBytes;
  // The notch to the next surface counts from the end of the last row's pixels.
  const uint64_t rows = (height - 1) * s.line_pitch + width * kAtomBytes;
  s.surface_pitch = static_cast<int64_t>(rows) + notch;
  return s;
}

// Unpooling repeats pixels: kernel and stride are the same, so that every output pixel has one
// source. The cube's size is that of the source (documented as "input feature width"); programs
// that give the output's size there are read as such (assumed). Where the task's groups have as
// many surfaces as a pixel has rows, the rows leave as these surfaces, and the task's height is
// that of the source.
void decode_unpooling(const BlockView& v, const DpuConfig& dpu, uint32_t* height, uint32_t* width,
                      OperandShape* repeat) {
  namespace dma = r::rdma_src_dma_cfg;
  const auto kernel_h = static_cast<uint32_t>(v.value(dma::kKernelHeight));
  const auto kernel_w = static_cast<uint32_t>(v.value(dma::kKernelWidth));
  repeat->repeat_h = static_cast<uint32_t>(v.value(dma::kKernelStrideHeight));
  repeat->repeat_w = static_cast<uint32_t>(v.value(dma::kKernelStrideWidth));
  v.only(dma::kPoolingMethod, 0, "unpooling by positions");
  if (kernel_h != repeat->repeat_h || kernel_w != repeat->repeat_w) {
    v.fault(fault::kUnsupportedFeature, dma::kKernelHeight,
            "unpooling with a kernel other than its stride (", kernel_h, "x", kernel_w, ", stride ",
            repeat->repeat_h, "x", repeat->repeat_w, ") is not modelled by this simulator");
  }
  v.only(r::rdma_pad_cfg::kPadTop, 0, "padded unpooling");
  v.only(r::rdma_pad_cfg::kPadLeft, 0, "padded unpooling");
  repeat->rows_are_surfaces =
      dpu.surfaces_per_group > 1 && dpu.surfaces_per_group == repeat->repeat_h;
  if (*height == dpu.height && *width == dpu.width) {
    if (!repeat->rows_are_surfaces) *height /= repeat->repeat_h;
    *width /= repeat->repeat_w;
  }
}

void copy_row(const OperandShape& shape, const int8_t* row, int8_t* out) {
  for (uint32_t x = 0; x < shape.width; ++x) {
    for (uint32_t k = 0; k < shape.repeat_w; ++k, out += kAtomBytes) {
      std::memcpy(out, row + size_t{x} * kAtomBytes, kAtomBytes);
    }
  }
}

}  // namespace

int32_t load_element(const uint8_t* bytes, uint32_t count) {
  if (count == 1) return static_cast<int8_t>(bytes[0]);
  if (count == 2) return static_cast<int16_t>(bytes[0] | bytes[1] << 8);
  return static_cast<int32_t>(bytes[0] | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 |
                              uint32_t{bytes[3]} << 24);
}

int32_t OperandCube::element(uint32_t channel, uint64_t pixel) const {
  const int8_t* atom = surface(channel / lanes()) + pixel * kAtomBytes;
  return load_element(reinterpret_cast<const uint8_t*>(atom) + channel % lanes() * element_bytes,
                      element_bytes);
}

OperandShape decode_main_shape(const BlockView& v, const DpuConfig& dpu) {
  namespace dma = r::rdma_src_dma_cfg;
  auto height = static_cast<uint32_t>(v.value(r::rdma_data_cube_height::kHeight));
  auto width = static_cast<uint32_t>(v.value(r::rdma_data_cube_width::kWidth));
  OperandShape repeat;
  uint64_t line_notch = 0;
  int64_t notch = 0;
  const bool reads = v.raw(r::rdma_feature_mode_cfg::kMrdmaDisable) == 0;
  if (reads) {
    // The register is optional: programs without notches and unpooling leave it out.
    if (v.is_written(dma::kOffset)) {
      line_notch = v.raw(dma::kLineNotchAddr);
      if (v.raw(dma::kUnpoolingEn) != 0) {
        decode_unpooling(v, dpu, &height, &width, &repeat);
      }
    }
    notch = v.value(r::rdma_surf_notch::kSurfNotchAddr);
  }
  const char* cube = "DPU.DATA_CUBE_*";
  const int64_t columns = int64_t{width} * repeat.repeat_w;
  const int64_t rows = int64_t{height} * (repeat.rows_are_surfaces ? 1 : repeat.repeat_h);
  if (rows * columns == int64_t{dpu.height} * dpu.width) {
    // As many pixels in another number of rows: only the writer's sizes count.
    v.expect_equal({r::rdma_data_cube_height::kOffset, "HEIGHT + 1"}, rows, dpu.height, cube);
  } else {
    v.require_equal({r::rdma_data_cube_width::kOffset, "WIDTH + 1"}, columns, dpu.width, cube);
    v.require_equal({r::rdma_data_cube_height::kOffset, "HEIGHT + 1"}, rows, dpu.height, cube);
  }
  repeat.element_bytes = element_bytes(dpu.in);
  return shape_of(repeat, height, width, line_notch, notch);
}

OperandShape decode_ew_shape(const BlockView& v, const OperandShape& main) {
  const uint32_t line_notch = v.raw(r::rdma_data_cube_height::kEwLineNotchAddr);
  const uint32_t repeat_h = main.rows_are_surfaces ? 1 : main.repeat_h;
  return shape_of({}, main.height * repeat_h, main.width * main.repeat_w, line_notch,
                  v.value(r::rdma_ew_surf_notch::kEwSurfNotch));
}

OperandCube read_operand(const Memory& memory, const OperandShape& shape, uint64_t even,
                         const uint64_t* odd, uint64_t surfaces, const Position& where,
                         bool is_main, std::vector<AddressPattern>* reads) {
  const std::string what = is_main ? "the main operand" : "the EW operand";
  const std::string src_reg = "DPU_RDMA.RDMA_SRC_BASE_ADDR";
  const std::string ew_reg = "DPU_RDMA.RDMA_EW_BASE_ADDR";
  const uint64_t row_bytes = uint64_t{shape.width} * kAtomBytes;
  const uint64_t extent = (shape.height - 1) * shape.line_pitch + row_bytes;
  OperandCube cube;
  cube.element_bytes = shape.element_bytes;
  cube.pitch = static_cast<uint64_t>(shape.surface_pitch);
  const auto note = [&](uint64_t address, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      reads->push_back({address + i * cube.pitch, extent, 0, 1});
    }
  };
  const uint64_t even_count = odd == nullptr ? surfaces : (surfaces + 1) / 2;
  const uint64_t odd_count = surfaces - even_count;
  const std::string& even_reg = is_main || odd != nullptr ? src_reg : ew_reg;
  note(even, even_count);
  if (odd != nullptr) note(*odd, odd_count);
  if (shape.is_contiguous()) {
    const auto fetch = [&](uint64_t address, uint64_t count, const std::string& reg) {
      const AddressPattern pattern{address, extent, cube.pitch, count};
      return reinterpret_cast<const int8_t*>(memory.read(pattern, where, reg, what));
    };
    cube.even = fetch(even, even_count, even_reg);
    if (odd_count > 0) cube.odd = fetch(*odd, odd_count, ew_reg);
    // One surface only: the odd pointer is never used, but must mark the cube as combined.
    if (odd != nullptr && cube.odd == nullptr) cube.odd = cube.even;
    return cube;
  }
  const size_t out_row = row_bytes * shape.repeat_w;
  // Every repeated row as a row of its surface, or all of a pixel's rows as surfaces of their own.
  const uint32_t copies = shape.rows_are_surfaces ? shape.repeat_h : 1;
  const uint32_t repeats = shape.rows_are_surfaces ? 1 : shape.repeat_h;
  const size_t out_surface = out_row * shape.height * repeats;
  // The last row first: what lies outside memory must not make room for a copy.
  for (uint64_t s = surfaces; s-- > 0;) {
    const bool is_odd = odd != nullptr && s % 2 != 0;
    const uint64_t index = odd == nullptr ? s : s / 2;
    const uint64_t address = (is_odd ? *odd : even) + index * cube.pitch;
    const AddressPattern rows{address, row_bytes, shape.line_pitch, shape.height};
    const auto* data =
        reinterpret_cast<const int8_t*>(memory.read(rows, where, is_odd ? ew_reg : even_reg, what));
    if (!cube.gathered) {
      cube.gathered = std::make_shared<std::vector<int8_t>>(out_surface * copies * surfaces);
    }
    for (uint32_t copy = 0; copy < copies; ++copy) {
      int8_t* out = cube.gathered->data() + (s * copies + copy) * out_surface;
      for (uint32_t y = 0; y < shape.height * repeats; ++y, out += out_row) {
        copy_row(shape, data + y / repeats * shape.line_pitch, out);
      }
    }
  }
  cube.even = cube.gathered->data();
  cube.pitch = out_surface;
  if (odd == nullptr && shape.repeat_h == 1 && shape.repeat_w == 1) {
    cube.address = even;
    cube.address_pitch = shape.surface_pitch;
  }
  return cube;
}

}  // namespace rk3588::sim
