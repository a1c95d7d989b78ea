#include "sim/rk3576.h"

#include "chip/registers_rk3576_gen.h"
#include "sim/rk3576_words.h"

namespace rk3588::sim::rk3576 {
namespace {

namespace cna = regs::rk3576::cna;
namespace core = regs::rk3576::core;
namespace dpu = regs::rk3576::dpu;
namespace rdma = regs::rk3576::dpu_rdma;

constexpr uint32_t kDense = 0;
constexpr uint32_t kDepthwise = 1;
constexpr uint32_t kLineStridePerPixel = 4;
constexpr uint32_t kPixelsAtOnce = 4;
constexpr uint32_t kScalarBytes = 16;
constexpr uint32_t kDepthwiseKernels = 2;
constexpr uint32_t kBnOff = 0x903;
constexpr uint32_t kBnClamps = 0x902;
constexpr uint64_t kMaxProducts = (uint64_t{1} << 31) / (128 * 128) - 1;
// The most that one group of kernels may take: with more, others lost groups on a board.
constexpr uint64_t kMaxGroupBytes = 144 * 1024;
constexpr uint32_t kDataBanks = 4;
// A rest that is stored as a whole group.
constexpr uint32_t kWholeChannels = 64;
constexpr uint32_t kOddChannels = 48;

uint32_t align_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

struct Expected {
  uint16_t offset;
  uint32_t dense;
  uint32_t depthwise;
};

// What every known convolution holds; see the registers' meanings.
constexpr Expected kCnaConstants[] = {
    {cna::conv_con2::kOffset, 0xfff, 0xfff},    {cna::cvt_con0::kOffset, 0xb, 0xb},
    {cna::cvt_con1::kOffset, 0x10001, 0x10001}, {cna::cvt_con2::kOffset, 0x10001, 0x10001},
    {cna::cvt_offset0::kOffset, 0, 0},          {cna::cvt_offset1::kOffset, 0, 0},
    {cna::cvt_offset2::kOffset, 0, 0},          {cna::undocumented_1060::kOffset, 0, 0},
    {cna::undocumented_1064::kOffset, 0, 0},    {cna::undocumented_1068::kOffset, 0, 0},
    {cna::undocumented_106c::kOffset, 0, 0},    {cna::undocumented_1070::kOffset, 0, 0},
    {cna::undocumented_1074::kOffset, 0, 0},    {cna::dma_con0::kOffset, 0xf000f, 0xf000f},
    {cna::undocumented_109c::kOffset, 0, 0},    {cna::dcomp_ctrl::kOffset, 0, 0},
    {cna::dcomp_regnum::kOffset, 0, 0},         {cna::dcomp_amount0::kOffset, 0, 0},
    {cna::dcomp_amount1::kOffset, 0, 0},
};
constexpr Expected kDpuConstants[] = {
    {dpu::feature_mode_cfg::kOffset, 0x40000004, 0x4000000c},
    {dpu::data_format::kOffset, 0, 0},
    {dpu::offset_pend::kOffset, 0, 0},
    {dpu::data_cube_notch_addr::kOffset, 0, 0},
    {dpu::wdma_mode::kOffset, 0x120080, 0x100092},
    {dpu::undocumented_403c::kOffset, 0, 0},
    {dpu::bs_cfg::kOffset, 1, 0},
    {dpu::bs_min::kOffset, kLeast, kLeast},
    {dpu::bs_max::kOffset, kLargest, kLargest},
    {dpu::bn_min::kOffset, kLeast, kLeast},
    {dpu::bn_max::kOffset, kLargest, kLargest},
    {dpu::ew_cfg::kOffset, 0x10041c1, 0x10041c1},
    {dpu::ew_cvt_offset_value::kOffset, 0, 0},
    {dpu::ew_cvt_scale_value::kOffset, 1, 1},
    {dpu::ew_min::kOffset, kLeast, kLeast},
    {dpu::ew_max::kOffset, kLargest, kLargest},
    {dpu::ew_op_value_0::kOffset, 0, 0},
    {dpu::ew_op_value_1::kOffset, 0, 0},
    {dpu::undocumented_409c::kOffset, 0, 0},
    {dpu::out_min::kOffset, kLeast, kLeast},
    {dpu::out_max::kOffset, kLargest, kLargest},
    {dpu::undocumented_40bc::kOffset, 0, 0},
    {dpu::undocumented_40c0::kOffset, 0x4440100, 0x4440100},
    {dpu::undocumented_40c8::kOffset, 0, 0},
    {dpu::undocumented_40cc::kOffset, 0, 0},
    {dpu::undocumented_40d0::kOffset, 0x40ffff, 0x40ffff},
};
// The tables: all registers from the first to the last are 0.
constexpr uint16_t kTablesFirst = dpu::lut_access_cfg::kOffset;
constexpr uint16_t kTablesLast = dpu::lut_high_value_1::kOffset;
constexpr Expected kRdmaConstants[] = {
    {rdma::rdma_src_base_addr::kOffset, 0, 0},
    {rdma::rdma_brdma_cfg::kOffset, 0x710, 0x510},
    {rdma::rdma_nrdma_cfg::kOffset, 0, 0},
    {rdma::rdma_bn_base_addr::kOffset, 0, 0},
    {rdma::rdma_bn_scalar_addr::kOffset, 0, 0},
    {rdma::rdma_erdma_cfg::kOffset, 0x41, 0x41},
    {rdma::rdma_ew_base_addr::kOffset, 0, 0},
    {rdma::rdma_ew_surf_stride::kOffset, 0, 0},
    {rdma::rdma_feature_mode_cfg::kOffset, 0x40000010, 0x40000012},
    {rdma::undocumented_5048::kOffset, 0, 0},
    {rdma::undocumented_504c::kOffset, 0, 0},
    {rdma::undocumented_5064::kOffset, 0, 0},
    {rdma::undocumented_506c::kOffset, 0, 0},
    {rdma::undocumented_5078::kOffset, 0, 0},
    {rdma::undocumented_507c::kOffset, 0, 0},
};

template <size_t N>
void require_constants(const BlockView& v, const Expected (&constants)[N], bool is_depthwise) {
  for (const Expected& item : constants) {
    require_word(v, item.offset, is_depthwise ? item.depthwise : item.dense);
  }
}

// Rows, or columns, behind the input that the last window reaches over.
uint32_t used_padding(uint32_t outputs, uint32_t stride, uint32_t reach, uint32_t before,
                      uint32_t inputs) {
  const uint64_t end = uint64_t{outputs - 1} * stride + reach;
  const uint64_t have = uint64_t{before} + inputs;
  return static_cast<uint32_t>(end > have ? end - have : 0);
}

FeatureCube decode_feature(const BlockView& v, bool is_depthwise) {
  FeatureCube f;
  f.width = v.value(cna::data_size0::kOffset, cna::data_size0::kDatainWidth);
  f.height = v.value(cna::data_size0::kOffset, cna::data_size0::kDatainHeight);
  f.channels = v.value(cna::data_size1::kOffset, cna::data_size1::kDatainChannel);
  if (f.channels % f.lanes != 0) {
    v.fault(fault::kUnsupportedFeature, cna::data_size1::kOffset, "DATAIN_CHANNEL",
            std::to_string(f.channels) + " channels, no whole surfaces of 16, are not modelled");
  }
  if (is_depthwise && f.channels % kWholeChannels == kOddChannels) {
    v.fault(fault::kUnsupportedFeature, cna::data_size1::kOffset, "DATAIN_CHANNEL",
            std::to_string(f.channels) + " depthwise channels are not modelled: the last group " +
                "has 16, 32 or 64");
  }
  const std::string same = "CNA.DATA_SIZE0/1";
  const uint16_t fetch = cna::fc_data_size0::kOffset;
  v.require_equal(fetch, "DMA_WIDTH + 1", v.value(fetch, cna::fc_data_size0::kDmaWidth), f.width,
                  same);
  v.require_equal(fetch, "DMA_HEIGHT + 1", v.value(fetch, cna::fc_data_size0::kDmaHeight), f.height,
                  same);
  v.require_equal(cna::fc_data_size1::kOffset, "DMA_CHANNEL + 1",
                  v.value(cna::fc_data_size1::kOffset, cna::fc_data_size1::kDmaChannel), f.channels,
                  same);
  v.require_equal(cna::dma_con1::kOffset, "LINE_STRIDE", v.word(cna::dma_con1::kOffset),
                  uint64_t{kLineStridePerPixel} * f.width, same);
  v.require_equal(cna::dma_con3::kOffset, "FETCHED_PIXELS", v.word(cna::dma_con3::kOffset),
                  align_up(f.width * f.height, kPixelsAtOnce), same);
  require_word(v, cna::full_size::kOffset, (f.width - 1) << 16 | (f.width - 1));
  f.line_pitch = uint64_t{f.width} * kAtomBytes;
  f.surface_pitch = uint64_t{v.word(cna::dma_con2::kOffset)} * kAtomBytes;
  if (f.surface_pitch < f.line_pitch * f.height) {
    v.fault(fault::kInconsistentSizes, cna::dma_con2::kOffset, "SURF_STRIDE",
            "surfaces of " + std::to_string(f.surface_pitch) + " bytes are smaller than the tile");
  }
  f.address = v.atom_address(cna::feature_data_addr::kOffset);
  return f;
}

WeightBlock decode_weights(const BlockView& v, const CnaConfig& c) {
  WeightBlock w;
  const uint16_t size = cna::weight_size2::kOffset;
  w.kw = v.value(size, cna::weight_size2::kWeightSide1);
  w.kh = v.value(size, cna::weight_size2::kWeightSide0);
  if (w.kh != w.kw) {
    v.fault(fault::kUnsupportedFeature, size, "WEIGHT_SIDE_1",
            "sides of " + std::to_string(w.kw) + " and " + std::to_string(w.kh) +
                " are not modelled: sources differ on which is the height");
  }
  const auto kernels = static_cast<uint32_t>(v.value(size, cna::weight_size2::kWeightKernels));
  const uint64_t each = uint64_t{w.kh} * w.kw * c.feature.channels;
  const std::string because = "the kernel and the channels";
  w.bytes = v.word(cna::weight_size0::kOffset);
  v.require_equal(cna::weight_size1::kOffset, "WEIGHT_BYTES_PER_KERNEL",
                  v.word(cna::weight_size1::kOffset), each, because);
  v.require_equal(cna::data_size2::kOffset, "KERNEL_BITS",
                  v.raw(cna::data_size2::kOffset, cna::data_size2::kKernelBits),
                  c.is_depthwise ? each / 8 : each * 2, because);
  if (c.is_depthwise) {
    v.require_equal(size, "WEIGHT_KERNELS + 1", kernels, kDepthwiseKernels, "depthwise mode");
    w.kernels = 1;
    w.bytes_per_kernel = static_cast<uint32_t>(each);
    v.require_equal(cna::weight_size0::kOffset, "WEIGHT_BYTES", w.bytes, each * 2, because);
  } else {
    w.kernels = kernels;
    w.bytes_per_kernel = static_cast<uint32_t>(each);
    v.require_equal(cna::weight_size0::kOffset, "WEIGHT_BYTES", w.bytes, each * kernels, because);
    if (kernels % c.chip->dense_kernels != 0) {
      v.fault(fault::kUnsupportedFeature, size, "WEIGHT_KERNELS",
              std::to_string(kernels) + " kernels, no whole groups, are not modelled");
    }
  }
  const uint64_t group = c.is_depthwise ? w.bytes : each * c.chip->dense_kernels;
  if (group > kMaxGroupBytes) {
    v.fault(fault::kCbufOverrun, cna::weight_size0::kOffset, nullptr,
            std::to_string(group) + " bytes of a group of kernels exceed the " +
                std::to_string(kMaxGroupBytes) + " with which all groups are known to compute");
  }
  w.address = v.atom_address(cna::dcomp_addr0::kOffset);
  return w;
}

// The tile's rows begin where the core's banks begin: keeping rows is not modelled.
CbufPlan decode_cbuf(const BlockView& v, const CnaConfig& c) {
  CbufPlan p;
  p.banks_register = cna::cbuf_con0::kOffset;
  p.entries_register = cna::cbuf_con2::kOffset;
  const uint16_t con0 = cna::cbuf_con0::kOffset;
  v.only(con0, cna::cbuf_con0::kDataReuse, 0, "DATA_REUSE", "keeping rows");
  v.only(con0, cna::cbuf_con0::kCbufEn, 1, "CBUF_EN", "another CBUF mode");
  p.data_banks = v.raw(con0, cna::cbuf_con0::kDataBank);
  v.require_equal(con0, "DATA_BANK", p.data_banks, kDataBanks, "the proven split");
  const uint32_t banks = c.chip->cbuf_banks;
  const bool is_second = v.raw(cna::cbuf_con1::kOffset, cna::cbuf_con1::kSecondCore) != 0;
  const uint32_t first = is_second ? banks : 0;
  v.only(cna::cbuf_con1::kOffset, cna::cbuf_con1::kWeightReuse, 0, "WEIGHT_REUSE",
         "keeping weights");
  const std::string because = "CBUF_CON1.SECOND_CORE";
  v.require_equal(cna::cbuf_con1::kOffset, "END_BANK",
                  v.raw(cna::cbuf_con1::kOffset, cna::cbuf_con1::kEndBank), first + banks, because);
  v.require_equal(con0, "WEIGHT_FIRST_BANK", v.raw(con0, cna::cbuf_con0::kWeightFirstBank),
                  first + p.data_banks, because);
  p.weight_banks = banks - p.data_banks;
  const uint32_t bank_entries = c.chip->cbuf_bank_bytes / c.chip->cbuf_entry_bytes;
  const uint32_t start = first * bank_entries;
  p.entries_per_row = v.raw(cna::cbuf_con2::kOffset, cna::cbuf_con2::kDataEntries);
  v.require_equal(cna::cbuf_con2::kOffset, "WINDOW_START",
                  v.raw(cna::cbuf_con2::kOffset, cna::cbuf_con2::kWindowStart), start, because);
  v.require_equal(cna::cbuf_con3::kOffset, "FETCH_START",
                  v.raw(cna::cbuf_con3::kOffset, cna::cbuf_con3::kFetchStart), start, because);
  v.require_equal(cna::cbuf_con3::kOffset, "DATA_END",
                  v.raw(cna::cbuf_con3::kOffset, cna::cbuf_con3::kDataEnd),
                  start + p.data_banks * bank_entries, "CNA.CBUF_CON0.DATA_BANK");
  require_word(v, cna::cbuf_con4::kOffset, c.feature.width << 16 | p.entries_per_row);
  v.require_equal(cna::data_size1::kOffset, "FETCHED_ENTRIES",
                  v.raw(cna::data_size1::kOffset, cna::data_size1::kFetchedEntries),
                  uint64_t{p.entries_per_row} * c.feature.height, "CNA.CBUF_CON2");
  return p;
}

void decode_window(const BlockView& v, CnaConfig* c) {
  const uint16_t con3 = cna::conv_con3::kOffset;
  v.only(con3, cna::conv_con3::kTwoCores, 0, "TWO_CORES", "rows shared by two cores");
  c->stride_h = v.raw(con3, cna::conv_con3::kConvYStride);
  c->stride_w = v.raw(con3, cna::conv_con3::kConvXStride);
  c->dilation_h = v.value(con3, cna::conv_con3::kAtrousYDilation);
  c->dilation_w = v.value(con3, cna::conv_con3::kAtrousXDilation);
  if (c->stride_h == 0 || c->stride_h != c->stride_w || c->dilation_h != c->dilation_w) {
    v.fault(fault::kUnsupportedFeature, con3, nullptr,
            "strides of 0, and different ones or dilations for rows and columns, are not modelled");
  }
  c->out_width = v.value(cna::data_size2::kOffset, cna::data_size2::kDataoutWidth);
  const auto pixels =
      static_cast<uint64_t>(v.value(cna::data_size3::kOffset, cna::data_size3::kDataoutAtomics));
  if (pixels % c->out_width != 0) {
    v.fault(fault::kInconsistentSizes, cna::data_size3::kOffset, "DATAOUT_ATOMICS",
            "is no multiple of the output's width");
  }
  c->out_height = static_cast<uint32_t>(pixels / c->out_width);
  const uint16_t pads = cna::pad_con0::kOffset;
  c->pad_top = v.raw(pads, cna::pad_con0::kPadTop);
  c->pad_left = v.raw(pads, cna::pad_con0::kPadLeft);
  const FeatureCube& f = c->feature;
  const std::string because = "the last window";
  v.require_equal(pads, "PAD_RIGHT", v.raw(pads, cna::pad_con0::kPadRight),
                  used_padding(c->out_width, c->stride_w, c->reach_w(), c->pad_left, f.width),
                  because);
  v.require_equal(pads, "PAD_BOTTOM", v.raw(pads, cna::pad_con0::kPadBottom),
                  used_padding(c->out_height, c->stride_h, c->reach_h(), c->pad_top, f.height),
                  because);
  const uint32_t pad = v.word(cna::pad_con1::kOffset);
  c->pad_even = c->pad_odd = static_cast<int8_t>(pad & 0xff);
  if (static_cast<int32_t>(pad) != c->pad_even) {
    v.fault(fault::kInvalidValue, cna::pad_con1::kOffset, nullptr,
            "is " + hex(pad) + ", no byte extended by its sign");
  }
}

// Both clamps, or no limits.
void decode_activation(const BlockView& v, XStage* bn) {
  const uint16_t cfg = dpu::bn_cfg::kOffset;
  const uint32_t mode = v.word(cfg);
  const uint32_t least = v.word(dpu::relu_min::kOffset);
  const uint32_t largest = v.word(dpu::relu_max::kOffset);
  require_word(v, dpu::relu_2_min::kOffset, least);
  require_word(v, dpu::relu_2_max::kOffset, largest);
  if (mode == kBnOff) {
    require_word(v, dpu::relu_min::kOffset, kLeast);
    require_word(v, dpu::relu_max::kOffset, kLargest);
    return;
  }
  require_word(v, cfg, kBnClamps);
  require_word(v, dpu::relu_min::kOffset, 0);
  bn->relu = true;
  bn->relux = largest != kLargest;
  bn->relux_max = static_cast<int32_t>(largest);
}

}  // namespace

CnaConfig decode_cna(const BlockView& v, const Chip& chip) {
  CnaConfig c;
  c.chip = &chip;
  const uint32_t mode = v.word(cna::conv_con1::kOffset);
  if (mode != kDense && mode != kDepthwise) {
    v.fault(fault::kUnsupportedFeature, cna::conv_con1::kOffset, nullptr,
            hex(mode) + " is not modelled of this chip; supported are 0 (dense) and 1 (depthwise)");
  }
  c.is_depthwise = mode == kDepthwise;
  require_constants(v, kCnaConstants, c.is_depthwise);
  c.feature = decode_feature(v, c.is_depthwise);
  c.weights = decode_weights(v, c);
  c.cbuf = decode_cbuf(v, c);
  decode_window(v, &c);
  return c;
}

CoreConfig decode_core(const BlockView& v, const CnaConfig& c, const DpuConfig& d) {
  CoreConfig config;
  require_word(v, core::misc_cfg::kOffset, c.is_depthwise ? 0x1000000a : 0x10000001);
  require_word(v, core::clip_truncate::kOffset, 0);
  require_word(v, core::dataout_size_0::kOffset, (c.out_height - 1) << 16 | (c.out_width - 1));
  const uint32_t channels = c.is_depthwise ? c.feature.channels : c.weights.kernels;
  require_word(v, core::dataout_size_1::kOffset, channels - 1);
  const std::string cube = "DPU.DATA_CUBE_*";
  v.require_equal(core::dataout_size_0::kOffset, "DATAOUT_HEIGHT + 1", c.out_height, d.height,
                  cube);
  v.require_equal(core::dataout_size_0::kOffset, "DATAOUT_WIDTH + 1", c.out_width, d.width, cube);
  v.require_equal(core::dataout_size_1::kOffset, "DATAOUT_CHANNEL + 1", channels, d.real_channels,
                  cube);
  v.require_equal(core::misc_cfg::kOffset, "MODE", c.is_depthwise, d.is_depthwise,
                  "DPU.FEATURE_MODE_CFG");
  const uint64_t products =
      uint64_t{c.weights.kh} * c.weights.kw * (c.is_depthwise ? 1 : c.feature.channels);
  if (products > kMaxProducts) {
    v.fault(fault::kAccumulatorRange, core::misc_cfg::kOffset, nullptr,
            std::to_string(products) + " products per output can leave the 32-bit accumulator");
  }
  config.sums_inputs = true;
  return config;
}

DpuConfig decode_dpu(const BlockView& v, const Chip& chip) {
  DpuConfig c;
  c.is_depthwise = v.word(dpu::feature_mode_cfg::kOffset) == kDpuConstants[0].depthwise;
  require_constants(v, kDpuConstants, c.is_depthwise);
  for (const regs::Register& reg : regs::rk3576::kRegisters) {
    const bool is_table = reg.target == dpu::kTarget && reg.offset >= kTablesFirst;
    if (is_table && reg.offset <= kTablesLast) require_word(v, reg.offset, 0);
  }
  c.width = c.write_width = v.value(dpu::data_cube_width::kOffset, dpu::data_cube_width::kWidth);
  c.height = c.write_height =
      v.value(dpu::data_cube_height::kOffset, dpu::data_cube_height::kHeight);
  c.real_channels = v.value(dpu::data_cube_channel::kOffset, dpu::data_cube_channel::kChannel);
  const uint32_t group = c.is_depthwise ? chip.depthwise_channels : chip.dense_kernels;
  // Whether the rest of a depthwise group is written is not known: it needs room.
  c.channels = align_up(c.real_channels, group);
  c.surfaces_per_group = group / c.lanes;
  require_word(v, dpu::wdma_size_0::kOffset,
               (c.real_channels - 1) << 16 | (c.is_depthwise ? 0x310 : 0x710));
  require_word(v, dpu::wdma_size_1::kOffset, (c.height - 1) << 16 | (c.width - 1));
  const uint32_t surfaces = (c.real_channels + c.lanes - 1) / c.lanes;
  require_word(v, dpu::bs_ow_cfg::kOffset,
               c.is_depthwise ? 0x13033 | ((surfaces - 1) & 3) << 8 : 0x80011111);
  c.dst = v.atom_address(dpu::dst_base_addr::kOffset);
  c.surface_pitch = v.value(dpu::dst_surf_stride::kOffset, dpu::dst_surf_stride::kDstSurfStride);
  c.line_pitch = uint64_t{c.width} * kAtomBytes;
  const uint64_t rows = c.line_pitch * c.height;
  c.group_pitch = v.value(dpu::surface_add::kOffset, dpu::surface_add::kSurfAdd) + rows;
  v.require_equal(dpu::surface_add::kOffset, "SURF_ADD", c.group_pitch - rows,
                  c.surface_pitch * c.surfaces_per_group - rows, "DPU.DST_SURF_STRIDE");
  const bool is_odd = c.surface_pitch > kAtomBytes && c.surface_pitch % (4 * kAtomBytes) != 0;
  if (c.surface_pitch < rows || (c.is_depthwise && is_odd)) {
    v.fault(fault::kInconsistentSizes, dpu::dst_surf_stride::kOffset, nullptr,
            "surfaces of " + std::to_string(c.surface_pitch) +
                " bytes are smaller than the tile, or neither one pixel nor a multiple of 4 in "
                "depthwise mode");
  }
  c.bs.alu = c.bs.mul = Operand::kMemory;
  c.ow = c.is_depthwise ? Operand::kOff : Operand::kMemory;
  decode_activation(v, &c.bn);
  decode_out(v, false, &c);
  return c;
}

void decode_out(const BlockView& v, bool is_alone, DpuConfig* c) {
  c->out.offset = v.value(dpu::out_cvt_offset::kOffset, dpu::out_cvt_offset::kOutCvtOffset);
  const uint16_t scale = dpu::out_cvt_scale::kOffset;
  v.only(scale, dpu::out_cvt_scale::kFlyingEn, is_alone ? 1 : 0, "FLYING_EN",
         is_alone ? "the conversion of convolutions" : "another conversion");
  c->out.scale = static_cast<int16_t>(v.value(scale, dpu::out_cvt_scale::kOutCvtScale));
  c->out.shift = v.raw(dpu::out_cvt_shift::kOffset, dpu::out_cvt_shift::kOutCvtShift);
}

RdmaConfig decode_rdma(const BlockView& v, const DpuConfig& d) {
  RdmaConfig c;
  require_constants(v, kRdmaConstants, d.is_depthwise);
  require_word(v, rdma::rdma_data_cube_width::kOffset, d.width - 1);
  require_word(v, rdma::rdma_data_cube_height::kOffset, d.height - 1);
  require_word(v, rdma::rdma_data_cube_channel::kOffset, d.real_channels - 1);
  c.bs_data = d.is_depthwise ? OperandData::kPairBlocks : OperandData::kBlocks;
  c.bs_address = v.atom_address(rdma::rdma_bs_base_addr::kOffset);
  c.shifts_address = v.atom_address(rdma::rdma_bs_scalar_addr::kOffset);
  return c;
}

void fetch_shifts(const Memory& memory, const RdmaConfig& c, const Position& where, DpuConfig* d) {
  const AddressPattern pattern{c.shifts_address, kScalarBytes, 0, 1};
  const uint8_t* word =
      memory.read(pattern, where, "DPU_RDMA.RDMA_BS_SCALAR_ADDR", "the shifts of BS");
  d->bs.shift = word[0] & 0x3fu;
  d->bs.shift_negative = word[1] & 0x3fu;
}

void add_shifts(const RdmaConfig& c, Operands* operands) {
  operands->reads.push_back({c.shifts_address, kScalarBytes, 0, 1});
  operands->bytes.brdma += kScalarBytes;
}

void separate_pairs(const Position& where, TaskPlan* plan) {
  const CnaConfig& c = plan->cna;
  const uint32_t group = c.chip->depthwise_channels;
  const uint32_t channels = c.feature.channels;
  const uint64_t taps = uint64_t{c.weights.kh} * c.weights.kw;
  auto firsts = std::make_unique<std::vector<int8_t>>(taps * channels);
  plan->operands.bs.ow.assign(plan->dpu.channels, 0);
  for (uint32_t channel = 0; channel < channels; ++channel) {
    const uint32_t begin = channel / group * group;
    const uint32_t in_group = std::min(group, channels - begin);
    const uint32_t place = channel - begin;
    for (uint64_t tap = 0; tap < taps; ++tap) {
      const int8_t* pair =
          plan->weights + 2 * (begin * taps + tap * in_group) + 4 * (place / 2) + place % 2;
      int16_t& second = plan->operands.bs.ow[channel];
      if (tap != 0 && second != pair[2]) {
        raise(fault::kUnsupportedFeature, where, "CNA.DCOMP_ADDR0",
              "second bytes of the weights of channel " + std::to_string(channel) +
                  " that differ between taps are not modelled by this simulator");
      }
      second = pair[2];
      const auto ky = static_cast<uint32_t>(tap / c.weights.kw);
      const auto kx = static_cast<uint32_t>(tap % c.weights.kw);
      (*firsts)[depthwise_weight_offset(c, channel, ky, kx)] = pair[0];
    }
  }
  plan->dpu.ow = Operand::kMemory;
  plan->weights = firsts->data();
  plan->weight_bytes = std::move(firsts);
}

}  // namespace rk3588::sim::rk3576
