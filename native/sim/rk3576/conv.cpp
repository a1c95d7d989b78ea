#include "chip/registers_rk3576_gen.h"
#include "sim/rk3576/decode.h"

namespace rk3588::sim::rk3576 {
namespace {

namespace cna = regs::rk3576::cna;
namespace core = regs::rk3576::core;

constexpr uint32_t kDense = 0;
constexpr uint32_t kDepthwise = 1;
constexpr uint32_t kLineStridePerPixel = 4;
constexpr uint32_t kPixelsAtOnce = 4;
constexpr uint32_t kDepthwiseKernels = 2;
// The most that one group of kernels may take: with more, others lost groups on a board.
constexpr uint64_t kMaxGroupBytes = 144 * 1024;
constexpr uint32_t kDataBanks = 4;
// A rest that is stored as a whole group.
constexpr uint32_t kWholeChannels = 64;
constexpr uint32_t kOddChannels = 48;

// Registers that hold the same in every known convolution (docs/registers_rk3576.md).
constexpr std::pair<uint16_t, uint32_t> kCnaConstants[] = {
    {cna::conv_con2::kOffset, 0xfff},     {cna::cvt_con0::kOffset, 0xb},
    {cna::cvt_con1::kOffset, 0x10001},    {cna::cvt_con2::kOffset, 0x10001},
    {cna::cvt_offset0::kOffset, 0},       {cna::cvt_offset1::kOffset, 0},
    {cna::cvt_offset2::kOffset, 0},       {cna::undocumented_1060::kOffset, 0},
    {cna::undocumented_1064::kOffset, 0}, {cna::undocumented_1068::kOffset, 0},
    {cna::undocumented_106c::kOffset, 0}, {cna::undocumented_1070::kOffset, 0},
    {cna::undocumented_1074::kOffset, 0}, {cna::dma_con0::kOffset, 0xf000f},
    {cna::undocumented_109c::kOffset, 0}, {cna::dcomp_ctrl::kOffset, 0},
    {cna::dcomp_regnum::kOffset, 0},      {cna::dcomp_amount0::kOffset, 0},
    {cna::dcomp_amount1::kOffset, 0},
};
// Rows, or columns, behind the input that the last window reaches over.
uint32_t used_padding(uint32_t outputs, uint32_t stride, uint32_t reach, uint32_t before,
                      uint32_t inputs) {
  const uint64_t end = uint64_t{outputs - 1} * stride + reach;
  const uint64_t have = uint64_t{before} + inputs;
  return static_cast<uint32_t>(end > have ? end - have : 0);
}

FeatureCube decode_feature(const BlockView& v, bool is_depthwise) {
  FeatureCube f;
  f.width = v.value(cna::data_size0::kDatainWidth);
  f.height = v.value(cna::data_size0::kDatainHeight);
  f.channels = v.value(cna::data_size1::kDatainChannel);
  if (f.channels % f.lanes != 0) {
    v.fault(fault::kUnsupportedFeature, cna::data_size1::kDatainChannel, f.channels,
            " channels, no whole surfaces of 16, are not modelled");
  }
  if (is_depthwise && f.channels % kWholeChannels == kOddChannels) {
    v.fault(fault::kUnsupportedFeature, cna::data_size1::kDatainChannel, f.channels,
            " depthwise channels are not modelled: the last group has 16, 32 or 64");
  }
  const std::string same = "CNA.DATA_SIZE0/1";
  v.require(cna::fc_data_size0::kDmaWidth, f.width, same);
  v.require(cna::fc_data_size0::kDmaHeight, f.height, same);
  v.require(cna::fc_data_size1::kDmaChannel, f.channels, same);
  v.require(cna::dma_con1::kLineStride, uint64_t{kLineStridePerPixel} * f.width, same);
  v.require(cna::dma_con3::kFetchedPixels, align_up(f.width * f.height, kPixelsAtOnce), same);
  require_word(v, cna::full_size::kOffset, (f.width - 1) << 16 | (f.width - 1));
  f.line_pitch = uint64_t{f.width} * kAtomBytes;
  f.surface_pitch = uint64_t{v.word(cna::dma_con2::kOffset)} * kAtomBytes;
  if (f.surface_pitch < f.line_pitch * f.height) {
    v.fault(fault::kInconsistentSizes, cna::dma_con2::kSurfStride, "surfaces of ", f.surface_pitch,
            " bytes are smaller than the tile");
  }
  f.address = v.atom_address(cna::feature_data_addr::kOffset);
  return f;
}

WeightBlock decode_weights(const BlockView& v, const CnaConfig& c) {
  WeightBlock w;
  w.kw = v.value(cna::weight_size2::kWeightSide1);
  w.kh = v.value(cna::weight_size2::kWeightSide0);
  if (w.kh != w.kw) {
    v.fault(fault::kUnsupportedFeature, cna::weight_size2::kWeightSide1, "sides of ", w.kw, " and ",
            w.kh, " are not modelled: sources differ on which is the height");
  }
  const auto kernels = static_cast<uint32_t>(v.value(cna::weight_size2::kWeightKernels));
  const uint64_t each = uint64_t{w.kh} * w.kw * c.feature.channels;
  const std::string because = "the kernel and the channels";
  w.bytes = v.word(cna::weight_size0::kOffset);
  v.require(cna::weight_size1::kWeightBytesPerKernel, each, because);
  v.require(cna::data_size2::kKernelBits, c.is_depthwise ? each / 8 : each * 2, because);
  if (c.is_depthwise) {
    v.require(cna::weight_size2::kWeightKernels, kDepthwiseKernels, "depthwise mode");
    w.kernels = 1;
    w.bytes_per_kernel = static_cast<uint32_t>(each);
    v.require(cna::weight_size0::kWeightBytes, each * 2, because);
  } else {
    w.kernels = kernels;
    w.bytes_per_kernel = static_cast<uint32_t>(each);
    v.require(cna::weight_size0::kWeightBytes, each * kernels, because);
    if (kernels % c.chip->dense_kernels != 0) {
      v.fault(fault::kUnsupportedFeature, cna::weight_size2::kWeightKernels, kernels,
              " kernels, no whole groups, are not modelled");
    }
  }
  const uint64_t group = c.is_depthwise ? w.bytes : each * c.chip->dense_kernels;
  if (group > kMaxGroupBytes) {
    v.fault(fault::kCbufOverrun, cna::weight_size0::kOffset, group,
            " bytes of a group of kernels exceed the ", kMaxGroupBytes,
            " with which all groups are known to compute");
  }
  w.address = v.atom_address(cna::dcomp_addr0::kOffset);
  return w;
}

// The tile's rows begin where the core's banks begin: keeping rows is not modelled.
CbufPlan decode_cbuf(const BlockView& v, const CnaConfig& c) {
  CbufPlan p;
  p.banks_register = cna::cbuf_con0::kOffset;
  p.entries_register = cna::cbuf_con2::kOffset;
  v.only(cna::cbuf_con0::kDataReuse, 0, "keeping rows");
  v.only(cna::cbuf_con0::kCbufEn, 1, "another CBUF mode");
  p.data_banks = v.raw(cna::cbuf_con0::kDataBank);
  v.require(cna::cbuf_con0::kDataBank, kDataBanks, "the proven split");
  const uint32_t banks = c.chip->cbuf_banks;
  const bool is_second = v.raw(cna::cbuf_con1::kSecondCore) != 0;
  const uint32_t first = is_second ? banks : 0;
  v.only(cna::cbuf_con1::kWeightReuse, 0, "keeping weights");
  const std::string because = "CBUF_CON1.SECOND_CORE";
  v.require(cna::cbuf_con1::kEndBank, first + banks, because);
  v.require(cna::cbuf_con0::kWeightFirstBank, first + p.data_banks, because);
  p.weight_banks = banks - p.data_banks;
  const uint32_t bank_entries = c.chip->cbuf_bank_bytes / c.chip->cbuf_entry_bytes;
  const uint32_t start = first * bank_entries;
  p.entries_per_row = v.raw(cna::cbuf_con2::kDataEntries);
  v.require(cna::cbuf_con2::kWindowStart, start, because);
  v.require(cna::cbuf_con3::kFetchStart, start, because);
  v.require(cna::cbuf_con3::kDataEnd, start + p.data_banks * bank_entries,
            "CNA.CBUF_CON0.DATA_BANK");
  require_word(v, cna::cbuf_con4::kOffset, c.feature.width << 16 | p.entries_per_row);
  v.require(cna::data_size1::kFetchedEntries, uint64_t{p.entries_per_row} * c.feature.height,
            "CNA.CBUF_CON2");
  return p;
}

void decode_window(const BlockView& v, CnaConfig* c) {
  v.only(cna::conv_con3::kTwoCores, 0, "rows shared by two cores");
  c->stride_h = v.raw(cna::conv_con3::kConvYStride);
  c->stride_w = v.raw(cna::conv_con3::kConvXStride);
  c->dilation_h = v.value(cna::conv_con3::kAtrousYDilation);
  c->dilation_w = v.value(cna::conv_con3::kAtrousXDilation);
  if (c->stride_h == 0 || c->stride_h != c->stride_w || c->dilation_h != c->dilation_w) {
    v.fault(fault::kUnsupportedFeature, cna::conv_con3::kOffset,
            "strides of 0, and different ones or dilations for rows and columns, are not modelled");
  }
  c->out_width = v.value(cna::data_size2::kDataoutWidth);
  const auto pixels = static_cast<uint64_t>(v.value(cna::data_size3::kDataoutAtomics));
  if (pixels % c->out_width != 0) {
    v.fault(fault::kInconsistentSizes, cna::data_size3::kDataoutAtomics,
            "is no multiple of the output's width");
  }
  c->out_height = static_cast<uint32_t>(pixels / c->out_width);
  c->pad_top = v.raw(cna::pad_con0::kPadTop);
  c->pad_left = v.raw(cna::pad_con0::kPadLeft);
  const FeatureCube& f = c->feature;
  const std::string because = "the last window";
  v.require(cna::pad_con0::kPadRight,
            used_padding(c->out_width, c->stride_w, c->reach_w(), c->pad_left, f.width), because);
  v.require(cna::pad_con0::kPadBottom,
            used_padding(c->out_height, c->stride_h, c->reach_h(), c->pad_top, f.height), because);
  const uint32_t pad = v.word(cna::pad_con1::kOffset);
  c->pad_even = c->pad_odd = static_cast<int8_t>(pad & 0xff);
  if (static_cast<int32_t>(pad) != c->pad_even) {
    v.fault(fault::kInvalidValue, cna::pad_con1::kOffset, "is ", hex(pad),
            ", no byte extended by its sign");
  }
}

}  // namespace

CnaConfig decode_cna(const BlockView& v, const Chip& chip) {
  CnaConfig c;
  c.chip = &chip;
  const uint32_t mode = v.word(cna::conv_con1::kOffset);
  if (mode != kDense && mode != kDepthwise) {
    v.fault(fault::kUnsupportedFeature, cna::conv_con1::kOffset, hex(mode),
            " is not modelled of this chip; supported are 0 (dense) and 1 (depthwise)");
  }
  c.is_depthwise = mode == kDepthwise;
  for (const auto& [offset, expected] : kCnaConstants) require_word(v, offset, expected);
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
  v.require(core::dataout_size_0::kDataoutHeight, d.height, cube);
  v.require(core::dataout_size_0::kDataoutWidth, d.width, cube);
  v.require(core::dataout_size_1::kDataoutChannel, d.real_channels, cube);
  v.require_equal(core::misc_cfg::kMode, c.is_depthwise, d.is_depthwise, "DPU.FEATURE_MODE_CFG");
  const uint64_t products =
      uint64_t{c.weights.kh} * c.weights.kw * (c.is_depthwise ? 1 : c.feature.channels);
  if (products > kMaxProducts) {
    v.fault(fault::kAccumulatorRange, core::misc_cfg::kOffset, products,
            " products per output can leave the 32-bit accumulator");
  }
  config.sums_inputs = true;
  return config;
}

void separate_pairs(const Position& where, TaskPlan* plan) {
  const CnaConfig& c = plan->cna;
  if (!c.is_depthwise) return;
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
              "second bytes of the weights of channel ", channel,
              " that differ between taps are not modelled by this simulator");
      }
      second = pair[2];
      const auto ky = static_cast<uint32_t>(tap / c.weights.kw);
      const auto kx = static_cast<uint32_t>(tap % c.weights.kw);
      (*firsts)[weight_offset(c, channel, channel, ky, kx)] = pair[0];
    }
  }
  plan->dpu.ow = Operand::kMemory;
  plan->weights = firsts->data();
  plan->weight_bytes = std::move(firsts);
}

}  // namespace rk3588::sim::rk3576
