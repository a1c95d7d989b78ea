#include "sim/dpu.h"

#include <algorithm>

namespace rk3588::sim {
namespace {

namespace r = regs::dpu;

constexpr uint32_t kOutputToMemory = 2;
constexpr uint32_t kConvDepthwise = 3;
// As many as a cube has rows at most: programs that write rows as groups need no more.
constexpr uint64_t kMaxWriteGroups = 8192;

void refuse_unsupported(const BlockView& v) {
  v.only(r::feature_mode_cfg::kTpEn, 0, "transposed output");
  v.only(r::feature_mode_cfg::kRgpType, 0, "regrouped output");
  v.only(r::feature_mode_cfg::kNonalign, 0, "unaligned output");
  v.only(r::feature_mode_cfg::kSurfLen, 0, "unaligned output");
  v.only(r::feature_mode_cfg::kOutputMode, kOutputToMemory, "an output to the PPU");
  v.only(r::data_format::kMcSurfOut, 0, "a surface series");
  v.only(r::data_cube_height::kMinmaxCtl, 0, "the min/max search");
  v.only(r::bs_ow_cfg::kRgpCnter, 0, "regrouped output");
  v.only(r::bs_ow_cfg::kTpOrgEn, 0, "transposed output");
  v.only(r::wdma_size_0::kTpPrecision, 0, "transposed output");
  v.only(r::wdma_size_0::kSizeCWdma, 0, "transposed output");
  v.only(r::undocumented_40c4::kValue, 0, "an undocumented value");
}

// Channels of a group of outputs. SIZE_E is the number of surfaces that a group fills, minus one.
uint32_t group_channels(const DpuConfig& c, const Chip& chip) {
  if (c.is_flying) return c.lanes * c.surfaces_per_group;
  const uint32_t channels = c.is_depthwise ? chip.depthwise_channels : chip.dense_kernels;
  return c.computes_in_float() ? channels / 2 : channels;
}

void decode_cube(const BlockView& v, const Chip& chip, DpuConfig* c) {
  c->width = v.value(r::data_cube_width::kWidth);
  c->height = v.value(r::data_cube_height::kHeight);
  c->channels = v.value(r::data_cube_channel::kChannel);
  c->real_channels = v.value(r::data_cube_channel::kOrigChannel);
  const uint32_t group = group_channels(*c, chip);
  if (c->channels % group != 0) {
    v.fault(fault::kInconsistentSizes, r::data_cube_channel::kChannel, c->channels,
            " channels are no whole groups of ", group, "; the core hangs on partial groups");
  }
  if (c->real_channels > c->channels || c->channels - c->real_channels >= group) {
    v.fault(fault::kInconsistentSizes, r::data_cube_channel::kOrigChannel, c->real_channels,
            " channels rounded up to groups of ", group, " are not the ", c->channels,
            " of CHANNEL");
  }
  const std::string same = "DPU.DATA_CUBE_*";
  v.expect(r::wdma_size_0::kChannelWdma, c->channels, same);
  c->write_height = v.value(r::wdma_size_1::kHeightWdma);
  c->write_width = v.value(r::wdma_size_1::kWidthWdma);
  const uint64_t pixels = uint64_t{c->channels / group} * c->height * c->width;
  const uint64_t written = uint64_t{c->write_height} * c->write_width;
  if (pixels % written != 0) {
    v.complain(fault::kInconsistentSizes, r::wdma_size_1::kOffset, "the writer's ", c->write_height,
               "x", c->write_width, " pixels do not divide the ", pixels,
               " that the groups of the cube have");
  }
  if (!c->writes_as_computed() && pixels / written > kMaxWriteGroups) {
    v.fault(fault::kUnsupportedFeature, r::wdma_size_1::kOffset, pixels / written,
            " groups of the writer's size are not modelled by this simulator; supported are ",
            kMaxWriteGroups);
  }
}

void decode_surfaces_per_group(const BlockView& v, const Chip& chip, DpuConfig* c) {
  // The task's own choice without a convolution: 0, or more for rows that leave as surfaces.
  uint32_t expected =
      c->is_flying ? v.raw(r::bs_ow_cfg::kSizeE0) : group_channels(*c, chip) / c->lanes - 1;
  // A type that changes on the way out: known are int32 sums (8 surfaces) and fp32 ones (4), where
  // the rule holds; for the rest the register itself says how surfaces are grouped.
  const bool changes_type = element_bytes(c->out_element) != (c->computes_in_float() ? 2u : 1u);
  if (changes_type) expected = v.raw(r::bs_ow_cfg::kSizeE0);
  const std::string because = "the mode (dense 1, depthwise 3, flying SIZE_E_0)";
  v.require(r::bs_ow_cfg::kSizeE0, expected, because);
  v.require(r::bs_ow_cfg::kSizeE1, expected, because);
  v.require(r::bs_ow_cfg::kSizeE2, expected, because);
  c->surfaces_per_group = expected + 1;
}

// Each pitch must step over all that the smaller ones cover.
void check_disjoint(const BlockView& v, const DpuConfig& c) {
  struct Walk {
    uint64_t pitch;
    uint64_t count;
    uint16_t reg;
    const char* what;
  };
  std::array<Walk, 3> walks{
      {{c.line_pitch, c.write_height, r::data_cube_notch_addr::kOffset, "rows "},
       {c.surface_pitch, c.surfaces_per_group, r::dst_surf_stride::kOffset, "surfaces "},
       {c.group_pitch, c.write_groups(), r::surface_add::kOffset, "groups "}}};
  std::stable_sort(walks.begin(), walks.end(),
                   [](const Walk& a, const Walk& b) { return a.pitch < b.pitch; });
  uint64_t covered = c.write_width * kAtomBytes;
  for (const Walk& walk : walks) {
    if (walk.count < 2) continue;
    if (walk.pitch < covered) {
      v.fault(fault::kInconsistentSizes, walk.reg, walk.what, walk.pitch,
              " bytes apart overlap; what lies between ", "two of them takes ", covered);
    }
    covered += (walk.count - 1) * walk.pitch;
  }
}

void decode_target(const BlockView& v, DpuConfig* c) {
  c->dst = v.atom_address(r::dst_base_addr::kOffset);
  const uint32_t notch_0 = v.raw(r::data_cube_notch_addr::kNotchAddr0);
  const uint32_t notch_1 = v.raw(r::data_cube_notch_addr::kNotchAddr1);
  if (notch_0 != notch_1) {
    v.fault(fault::kUnsupportedFeature, r::data_cube_notch_addr::kNotchAddr1,
            "two different notches (", notch_0, " and ", notch_1,
            ") are not modelled by this simulator");
  }
  c->line_pitch = uint64_t{c->write_width + notch_0} * kAtomBytes;
  c->surface_pitch = v.value(r::dst_surf_stride::kDstSurfStride);
  c->group_pitch = v.value(r::surface_add::kSurfAdd);
  check_disjoint(v, *c);
}

[[noreturn]] void refuse_type(const BlockView& v, regs::Field field, Element found,
                              const char* supported) {
  v.fault(fault::kUnsupportedFeature, field, element_name(found),
          " is not modelled by this simulator here; supported: ", supported);
}

bool is_integer(Element e) {
  return e == Element::kInt8 || e == Element::kInt16 || e == Element::kInt32;
}

// DATA_FORMAT: which types come in, are computed with and go out.
void decode_formats(const BlockView& v, DpuConfig* c) {
  c->in = static_cast<Element>(v.raw(r::data_format::kInPrecision));
  c->declared_in = c->in;
  c->proc = static_cast<Element>(v.raw(r::data_format::kProcPrecision));
  c->out_element = static_cast<Element>(v.raw(r::data_format::kOutPrecision));
  const Element out = c->out_element;
  if (c->proc == Element::kFp16) {
    // Numbers of fp32 from memory are what tasks before have written.
    const bool is_wide = c->is_flying && c->in == Element::kFp32;
    if (c->in != Element::kFp16 && !is_wide)
      refuse_type(v, r::data_format::kInPrecision, c->in,
                  "fp16 with fp16 processing, fp32 in flying mode");
    if (out != Element::kFp16 && out != Element::kFp32) {
      refuse_type(v, r::data_format::kOutPrecision, out, "fp16 and fp32 with fp16 processing");
    }
  } else if (is_integer(c->proc)) {
    if (!is_integer(c->in))
      refuse_type(v, r::data_format::kInPrecision, c->in, "integers with integer processing");
    if (!c->is_flying && c->in != Element::kInt8) {
      refuse_type(v, r::data_format::kInPrecision, c->in, "int8 in an integer convolution");
    }
    if (!is_integer(out) && out != Element::kFp16) {
      refuse_type(v, r::data_format::kOutPrecision, out,
                  "integers and fp16 with integer processing");
    }
  } else {
    refuse_type(v, r::data_format::kProcPrecision, c->proc, "int8, int16, int32 and fp16");
  }
  // Data declared as int16 pass 8-bit processing byte by byte (vendor programs that repeat pixels).
  if (c->is_flying && c->in == Element::kInt16 && c->proc == Element::kInt8 &&
      out == Element::kInt8) {
    c->in = Element::kInt8;
  }
  c->lanes = kAtomBytes / element_bytes(out);
}

void decode_ow(const BlockView& v, DpuConfig* c) {
  if (v.raw(r::bs_ow_cfg::kOdBypass) != 0) return;
  if (v.raw(r::bs_ow_cfg::kOwSrc) != 0) {
    c->ow = Operand::kMemory;
    return;
  }
  c->ow = Operand::kRegister;
  c->ow_operand = v.value(r::bs_ow_op::kOwOp);
  if (c->ow_operand == 0) c->ow = Operand::kOff;
}

}  // namespace

DpuConfig decode_dpu(const BlockView& v, bool is_conv, const Chip& chip) {
  refuse_unsupported(v);
  DpuConfig c;
  c.is_flying = v.raw(r::feature_mode_cfg::kFlyingMode) != 0;
  if (c.is_flying == is_conv) {
    v.fault(fault::kInvalidValue, r::feature_mode_cfg::kFlyingMode,
            is_conv ? "is 1 but the task starts CNA and CORE; a convolution needs 0"
                    : "is 0 but the task does not start CNA and CORE; it needs 1");
  }
  const uint32_t conv_mode = v.raw(r::feature_mode_cfg::kConvMode);
  if (conv_mode != 0 && conv_mode != kConvDepthwise) {
    v.fault(fault::kInvalidValue, r::feature_mode_cfg::kConvMode, "is ", conv_mode,
            "; known are 0 and 3");
  }
  c.is_depthwise = conv_mode == kConvDepthwise;
  c.combined = v.raw(r::feature_mode_cfg::kCombUse) != 0;
  c.pend_word = static_cast<uint16_t>(v.raw(r::offset_pend::kOffsetPend));
  c.pend = static_cast<int8_t>(c.pend_word & 0xff);
  decode_formats(v, &c);
  decode_surfaces_per_group(v, chip, &c);
  decode_cube(v, chip, &c);
  decode_target(v, &c);
  decode_ow(v, &c);
  const bool in_float = c.computes_in_float();
  c.bs = decode_bs(v, in_float);
  c.bn = decode_bn(v, in_float);
  c.ew = decode_ew(v, in_float);
  const uint32_t ew_cfg = v.word(r::ew_cfg::kOffset);
  if (r::ew_cfg::kEwBypass.raw(ew_cfg) == 0 && r::ew_cfg::kEwLutBypass.raw(ew_cfg) == 0) {
    c.lut = decode_lut(v);
  }
  if (c.lut.is_on && c.ew.relu.is_on) {
    v.fault(fault::kUnsupportedFeature, r::ew_cfg::kEwReluBypass,
            "ReLU together with the lookup table is not modelled by this simulator; supported "
            "is 1");
  }
  c.out = decode_out(v, c);
  if (c.is_flying && c.ow != Operand::kOff) {
    v.fault(fault::kInvalidValue, r::bs_ow_cfg::kOdBypass,
            "is 0 in flying mode, where there is no sum of inputs; it needs 1");
  }
  return c;
}

}  // namespace rk3588::sim
