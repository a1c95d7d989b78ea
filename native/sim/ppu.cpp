#include "sim/ppu.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/rounding.h"
#include "sim/thread_pool.h"

namespace rk3588::sim {
namespace {

namespace p = regs::ppu;
namespace d = regs::ppu_rdma;

// PPU_RDMA counts widths of elements: 1 for 8 bits, 2 for 16.
constexpr uint32_t kRead8Bit = 1;
constexpr uint32_t kRead16Bit = 2;
constexpr int kRecipFractionBits = 16;
// Output pixels of a row that the line buffer holds for one row of windows; as many rows overlap,
// rounded up to a power of two, share it (every one of 30 vendor programs keeps to that).
constexpr uint32_t kLineBufferPixels = 128;

void refuse_unsupported(const BlockView& v) {
  v.only(p::operation_mode_cfg::kFlyingMode, 1, "input from the DPU");
  v.only(p::operation_mode_cfg::kIndexEn, 0, "output of positions");
  v.only(p::operation_mode_cfg::kUseCnt, 0, "a use count");
  v.only(p::data_format::kDpuFlyin, 0, "input from the DPU");
  v.only(p::misc_ctrl::kMcSurfOut, 0, "a surface series");
  v.only(p::misc_ctrl::kNonalign, 0, "unaligned output");
  v.only(p::misc_ctrl::kSurfLen, 0, "unaligned output");
}

void decode_element(const BlockView& ppu, const BlockView& rdma, PoolingConfig* c) {
  c->element = static_cast<Element>(ppu.raw(p::data_format::kProcPrecision));
  if (c->element != Element::kInt8 && c->element != Element::kFp16) {
    ppu.fault(fault::kUnsupportedFeature, p::data_format::kProcPrecision, element_name(c->element),
              " pooling is not modelled by this simulator; supported are int8 and fp16");
  }
  rdma.require(d::rdma_data_format::kInPrecision,
               c->element == Element::kInt8 ? kRead8Bit : kRead16Bit,
               "PPU.DATA_FORMAT.PROC_PRECISION");
}

void decode_sizes(const BlockView& v, const BlockView& rdma, PoolingConfig* c) {
  c->in_width = v.value(p::data_cube_in_width::kCubeInWidth);
  c->in_height = v.value(p::data_cube_in_height::kCubeInHeight);
  c->out_width = v.value(p::data_cube_out_width::kCubeOutWidth);
  c->out_height = v.value(p::data_cube_out_height::kCubeOutHeight);
  const auto channels = static_cast<uint32_t>(v.value(p::data_cube_in_channel::kCubeInChannel));
  const char* same = "PPU.DATA_CUBE_IN_*";
  v.require(p::data_cube_out_channel::kCubeOutChannel, channels, same);
  rdma.require(d::rdma_cube_in_width::kCubeInWidth, c->in_width, same);
  rdma.require(d::rdma_cube_in_height::kCubeInHeight, c->in_height, same);
  rdma.require(d::rdma_cube_in_channel::kCubeInChannel, channels, same);
  const uint32_t lanes = kAtomBytes / element_bytes(c->element);
  c->surfaces = (channels + lanes - 1) / lanes;
}

void decode_window(const BlockView& v, PoolingConfig* c) {
  namespace k = p::pooling_kernel_cfg;
  namespace pad = p::pooling_padding_cfg;
  c->kernel_w = v.value(k::kKernelWidth);
  c->kernel_h = v.value(k::kKernelHeight);
  c->stride_w = v.value(k::kKernelStrideWidth);
  c->stride_h = v.value(k::kKernelStrideHeight);
  c->pad_left = v.raw(pad::kPadLeft);
  c->pad_top = v.raw(pad::kPadTop);
  const uint32_t right = v.raw(pad::kPadRight);
  const uint32_t bottom = v.raw(pad::kPadBottom);
  const auto check = [&](uint32_t out, uint32_t stride, uint32_t kernel, uint32_t in,
                         uint32_t before, uint32_t after, uint16_t offset, const char* field) {
    const uint64_t need = uint64_t{out - 1} * stride + kernel;
    const uint64_t have = uint64_t{in} + before + after;
    if (need <= have) return;
    v.fault(fault::kInconsistentSizes, {offset, field}, "+ 1 = ", out, " windows of ", kernel,
            " with stride ", stride, " need ", need, " pixels but input and padding have ", have);
  };
  check(c->out_width, c->stride_w, c->kernel_w, c->in_width, c->pad_left, right,
        p::data_cube_out_width::kOffset, "CUBE_OUT_WIDTH");
  check(c->out_height, c->stride_h, c->kernel_h, c->in_height, c->pad_top, bottom,
        p::data_cube_out_height::kOffset, "CUBE_OUT_HEIGHT");
  uint32_t shares = 1;
  while (shares * c->stride_h < c->kernel_h) shares *= 2;
  if (c->out_width > kLineBufferPixels / shares) {
    v.fault(fault::kInvalidValue, p::data_cube_out_width::kCubeOutWidth, "+ 1 = ", c->out_width,
            " is more than the ", kLineBufferPixels / shares, " columns that ", c->kernel_h,
            " rows with stride ", c->stride_h, " leave room for; split the columns over tasks");
  }
}

// The padding value has 35 bits in two registers.
void decode_padding(const BlockView& v, PoolingConfig* c) {
  const uint64_t low = v.word(p::padding_value_1_cfg::kOffset);
  const uint64_t high = v.raw(p::padding_value_2_cfg::kPadValue1);
  constexpr int kBits = 35;
  const uint64_t value = high << 32 | low;
  const bool is_negative = (value >> (kBits - 1) & 1) != 0;
  c->pad_value = static_cast<int64_t>(value) - (is_negative ? int64_t{1} << kBits : 0);
  c->pad_half = static_cast<uint16_t>(low);
  if (c->method != PoolingMethod::kAverage || c->element != Element::kInt8) return;
  if (c->pad_value < INT8_MIN || c->pad_value > INT8_MAX) {
    v.fault(fault::kInvalidValue, p::padding_value_1_cfg::kOffset, "a padding value of ",
            c->pad_value, " is no int8 number");
  }
}

// One window of the input: padding counts in the sum, but takes no part in a maximum or minimum,
// for known programs leave PAD_VALUE 0 there. A window of padding only gives the value itself
// (assumed).
template <typename Number>
struct Pooled {
  Number sum = 0;
  std::optional<Number> best;
};

// `load` makes a number of the atom of a pixel.
template <typename Number, typename Load>
Pooled<Number> pool(const PoolingConfig& c, const uint8_t* surface, uint32_t y, uint32_t x,
                    Number pad, Load load) {
  const int64_t top = int64_t{y} * c.stride_h - c.pad_top;
  const int64_t left = int64_t{x} * c.stride_w - c.pad_left;
  Pooled<Number> found;
  for (int64_t iy = top; iy < top + c.kernel_h; ++iy) {
    for (int64_t ix = left; ix < left + c.kernel_w; ++ix) {
      if (iy < 0 || iy >= c.in_height || ix < 0 || ix >= c.in_width) {
        found.sum += pad;
        continue;
      }
      const Number value = load(surface + iy * c.src_line_pitch + ix * kAtomBytes);
      const Number best = found.best.value_or(value);
      found.sum += value;
      found.best = c.method == PoolingMethod::kMax ? std::max(best, value) : std::min(best, value);
    }
  }
  return found;
}

// The mean is the sum times both reciprocals in Q16, rounded once, ties away from zero (observed;
// for windows of even size another rule for exact halves was seen but is unknown, and whether there
// is a rounding between the two products is assumed not to matter).
int8_t average(const PoolingConfig& c, int64_t sum) {
  const int64_t product = sum * c.recip_w * c.recip_h;
  return saturate8(shift_rounded(product, 2 * kRecipFractionBits, Ties::kAway));
}

int8_t pool_int8(const PoolingConfig& c, const uint8_t* surface, uint32_t y, uint32_t x,
                 uint32_t lane) {
  const auto found = pool<int64_t>(c, surface, y, x, c.pad_value, [lane](const uint8_t* atom) {
    return static_cast<int8_t>(atom[lane]);
  });
  if (c.method == PoolingMethod::kAverage) return average(c, found.sum);
  return saturate8(found.best.value_or(c.pad_value));
}

uint16_t pool_half(const PoolingConfig& c, const uint8_t* surface, uint32_t y, uint32_t x,
                   uint32_t lane) {
  const float pad = half_to_float(c.pad_half);
  const auto found = pool<float>(c, surface, y, x, pad, [lane](const uint8_t* atom) {
    return half_to_float(load_half(atom + 2 * lane));
  });
  if (c.method != PoolingMethod::kAverage) {
    return found.best ? float_to_half(*found.best) : c.pad_half;
  }
  // The reciprocals are fp16 numbers, 65536 / k each.
  const float recip_w = std::ldexp(half_to_float(static_cast<uint16_t>(c.recip_w)), -16);
  const float recip_h = std::ldexp(half_to_float(static_cast<uint16_t>(c.recip_h)), -16);
  return float_to_half(found.sum * recip_w * recip_h);
}

}  // namespace

PoolingConfig decode_pooling(const BlockView& ppu, const BlockView& rdma) {
  refuse_unsupported(ppu);
  PoolingConfig c;
  const uint32_t method = ppu.raw(p::operation_mode_cfg::kPoolingMethod);
  if (method > 2) {
    ppu.fault(fault::kInvalidValue, p::operation_mode_cfg::kPoolingMethod,
              "is 3; known are 0 (average), 1 (max) and 2 (min)");
  }
  c.method = static_cast<PoolingMethod>(method);
  decode_element(ppu, rdma, &c);
  decode_sizes(ppu, rdma, &c);
  decode_window(ppu, &c);
  decode_padding(ppu, &c);
  if (c.method == PoolingMethod::kAverage) {
    c.recip_w = ppu.raw(p::recip_kernel_width::kRecipKernelWidth);
    c.recip_h = ppu.raw(p::recip_kernel_height::kRecipKernelHeight);
  }
  c.src = rdma.atom_address(d::rdma_src_base_addr::kOffset);
  c.src_line_pitch = rdma.value(d::rdma_src_line_stride::kSrcLineStride);
  c.src_surface_pitch = rdma.value(d::rdma_src_surf_stride::kSrcSurfStride);
  if (c.in_height > 1 && c.src_line_pitch < uint64_t{c.in_width} * kAtomBytes) {
    rdma.fault(fault::kInconsistentSizes, d::rdma_src_line_stride::kOffset, "a row pitch of ",
               c.src_line_pitch, " bytes is less than a row");
  }
  c.dst = ppu.atom_address(p::dst_base_addr::kOffset);
  const uint32_t notch = ppu.raw(p::operation_mode_cfg::kNotchAddr);
  c.dst_line_pitch = (uint64_t{c.out_width} + notch) * kAtomBytes;
  c.dst_surface_pitch = ppu.value(p::dst_surf_stride::kDstSurfStride);
  const uint64_t tile = (c.out_height - 1) * c.dst_line_pitch + c.out_width * kAtomBytes;
  if (c.surfaces > 1 && c.dst_surface_pitch < tile) {
    ppu.fault(fault::kInconsistentSizes, p::dst_surf_stride::kOffset, "surfaces ",
              c.dst_surface_pitch, " bytes apart overlap; the tile takes ", tile);
  }
  ppu.expect(p::data_format::kIndexAdd, static_cast<int64_t>(c.dst_surface_pitch),
             "PPU.DST_SURF_STRIDE");
  return c;
}

PoolingPlan plan_pooling(const PoolingConfig& c, Memory& memory, const Position& where) {
  const uint64_t in_row = uint64_t{c.in_width} * kAtomBytes;
  const uint64_t out_row = uint64_t{c.out_width} * kAtomBytes;
  const char* src_reg = "PPU_RDMA.RDMA_SRC_BASE_ADDR";
  const char* dst_reg = "PPU.DST_BASE_ADDR";
  PoolingPlan plan{c, {}, {}, {}, {}};
  for (uint32_t s = 0; s < c.surfaces; ++s) {
    plan.reads.push_back(
        {c.src + s * c.src_surface_pitch, (c.in_height - 1) * c.src_line_pitch + in_row, 0, 1});
    plan.writes.push_back(
        {c.dst + s * c.dst_surface_pitch, (c.out_height - 1) * c.dst_line_pitch + out_row, 0, 1});
  }
  for (const AddressPattern& surface : plan.reads) {
    const AddressPattern rows{surface.address, in_row, c.src_line_pitch, c.in_height};
    plan.inputs.push_back(memory.read(rows, where, src_reg, "the pooling input"));
  }
  const bool is_single = c.kernel_h == 1 && c.kernel_w == 1;
  check_overlap(plan.writes, plan.reads, is_single, where, dst_reg, "the pooling input");
  for (const AddressPattern& out : plan.writes) memory.check(out, where, dst_reg, "the output");
  for (const AddressPattern& surface : plan.writes) {
    const AddressPattern rows{surface.address, out_row, c.dst_line_pitch, c.out_height};
    plan.outputs.push_back(memory.write(rows, where, dst_reg, "the output"));
  }
  return plan;
}

double pool_element(const PoolingPlan& plan, uint32_t channel, uint32_t y, uint32_t x) {
  const PoolingConfig& c = plan.config;
  const auto lanes = static_cast<uint32_t>(kAtomBytes / element_bytes(c.element));
  const uint8_t* surface = plan.inputs[channel / lanes];
  if (c.element == Element::kInt8) return pool_int8(c, surface, y, x, channel % lanes);
  return half_to_float(pool_half(c, surface, y, x, channel % lanes));
}

void run_pooling(const PoolingPlan& plan, ThreadPool& pool) {
  const PoolingConfig& c = plan.config;
  pool.run(c.surfaces, [&](size_t s) {
    for (uint32_t y = 0; y < c.out_height; ++y) {
      uint8_t* out = plan.outputs[s] + y * c.dst_line_pitch;
      for (uint32_t x = 0; x < c.out_width; ++x, out += kAtomBytes) {
        if (c.element == Element::kInt8) {
          for (uint32_t i = 0; i < kAtomBytes; ++i) {
            out[i] = static_cast<uint8_t>(pool_int8(c, plan.inputs[s], y, x, i));
          }
          continue;
        }
        for (uint32_t i = 0; i < kAtomBytes / 2; ++i) {
          const uint16_t value = pool_half(c, plan.inputs[s], y, x, i);
          out[2 * i] = static_cast<uint8_t>(value & 0xff);
          out[2 * i + 1] = static_cast<uint8_t>(value >> 8);
        }
      }
    }
  });
}

}  // namespace rk3588::sim
