#include "sim/cna.h"

#include <algorithm>

#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

namespace r = regs::cna;

constexpr uint32_t kDirect = 0;
constexpr uint32_t kDepthwise = 3;
// Four rows are fetched at once unless GROUP_LINE_OFF is set: LINE_STRIDE is their pixels.
constexpr uint32_t kGroupedLines = 4;
// Strides are 28 bits wide and wrap (a surface lower than 4 rows has a "negative" SURF_STRIDE).
constexpr uint32_t kStrideMask = (1u << 28) - 1;
// Sizes of feature maps are fields of 11 bits.
constexpr uint32_t kMaxVirtualSize = 2047;
// CHANNEL_REAL counts within the last 64 channels in some compilers' programs and over all in
// others'.
constexpr uint32_t kChannelRealPeriod = 64;

// Everything that must have its neutral value.
void refuse_unsupported(const BlockView& v) {
  v.only(r::conv_con2::kCoreSplit, 0, "a layer split over cores");
  v.only(r::conv_con2::kKernelGroup, 0, "a kernel group");
  v.only(r::conv_con2::kCscWoEn, 0, "stopping weights");
  v.only(r::conv_con2::kCscDoEn, 0, "stopping features");
  v.only(r::conv_con2::kCmdFifoSrst, 0, "a FIFO reset");
  v.only(r::conv_con3::kNnMode, 0, "another MAC array shape");
  v.only(r::data_size3::kSurfMode, 0, "a surface series");
  v.only(r::cbuf_con0::kFcDataBank, 0, "zero skipping");
  v.only(r::fc_con0::kFcSkipEn, 0, "zero skipping");
  v.only(r::fc_con0::kFcSkipData, 0, "zero skipping");
  v.only(r::fc_con1::kDataOffset, 0, "zero skipping");
  v.only(r::fc_con2::kWeightOffset, 0, "zero skipping");
  v.only(r::dcomp_ctrl::kDecompControl, 0, "weight decompression");
  v.only(r::dcomp_regnum::kDcompRegnum, 0, "weight decompression");
  regs::Field amount = r::dcomp_amount0::kDcompAmount0;
  amount.name = nullptr;  // the register says it all
  for (; amount.offset <= r::dcomp_amount15::kOffset; amount.offset += 4) {
    v.only(amount, 0, "weight decompression");
  }
}

void require_positive(const BlockView& v, regs::Field field) {
  if (v.raw(field) == 0) v.fault(fault::kInvalidValue, field, "is 0; it must be at least 1");
}

void check_burst(const BlockView& v, regs::Field field) {
  const uint32_t length = v.raw(field);
  if (length == 3 || length == 7 || length == 15) return;
  v.complain(fault::kInvalidValue, field, "is ", length, "; burst lengths are 3, 7 and 15");
}

// GROUP_LINE_OFF 1: LINE_STRIDE counts pixels, and SURF_STRIDE those from the end of the fetched
// width. 0: four rows at once; every known program of that kind fetches whole rows, LINE_STRIDE is
// 4 times their width and SURF_STRIDE counts from there.
void decode_pitches(const BlockView& v, FeatureCube* f) {
  const uint32_t line = v.raw(r::dma_con1::kLineStride);
  const uint32_t surface = v.raw(r::dma_con2::kSurfStride);
  const uint32_t width = v.raw(r::fc_data_size0::kDmaWidth);
  if (v.raw(r::conv_con1::kGroupLineOff) != 0) {
    f->line_pitch = uint64_t{line} * kAtomBytes;
    f->surface_pitch = uint64_t{(width + surface) & kStrideMask} * kAtomBytes;
    return;
  }
  if (line != kGroupedLines * width) {
    v.fault(fault::kInconsistentSizes, r::dma_con1::kLineStride, "is ", line,
            " but four rows of DMA_WIDTH = ", width, " pixels are fetched at once, which makes it ",
            kGroupedLines * width,
            "; a window of wider rows needs CNA.CONV_CON1.GROUP_LINE_OFF = 1");
  }
  f->line_pitch = uint64_t{width} * kAtomBytes;
  f->surface_pitch = uint64_t{(line + surface) & kStrideMask} * kAtomBytes;
}

FeatureCube decode_feature(const BlockView& v, const CnaConfig& c) {
  FeatureCube f;
  f.lanes = kAtomBytes / element_bytes(c.element);
  f.width = v.raw(r::data_size0::kDatainWidth);
  f.height = v.raw(r::data_size0::kDatainHeight);
  f.channels = v.raw(r::data_size1::kDatainChannel);
  require_positive(v, r::data_size0::kDatainWidth);
  require_positive(v, r::data_size0::kDatainHeight);
  require_positive(v, r::data_size1::kDatainChannel);
  if (f.channels % f.lanes != 0) {
    v.fault(fault::kInvalidValue, r::data_size1::kDatainChannel, "is ", f.channels, "; ",
            element_name(c.element), " features come in multiples of ", f.lanes);
  }
  const uint32_t real = v.raw(r::data_size1::kDatainChannelReal) + 1;
  const uint32_t last = (real - 1) % kChannelRealPeriod + 1;
  v.expect_equal({r::data_size1::kOffset,
                  "DATAIN_CHANNEL_REAL (in the last 64 channels, aligned to whole surfaces)"},
                 align_up(last, f.lanes), (f.channels - 1) % kChannelRealPeriod + 1,
                 "DATAIN_CHANNEL = ", f.channels);
  const std::string same = "CNA.DATA_SIZE0/1";
  // With packed pixels some programs have the width with, others without alignment here.
  if (!c.packed.is_on) {
    v.expect(r::fc_data_size0::kDmaWidth, f.width, same);
  }
  v.expect(r::fc_data_size0::kDmaHeight, f.height, same);
  v.expect(r::fc_data_size1::kDmaChannel, f.channels, same);
  f.address = v.word(r::feature_data_addr::kOffset);
  if (c.packed.is_on) {
    decode_packed_feature(v, c, &f);
    return f;
  }
  decode_pitches(v, &f);
  if (f.height > 1 && f.line_pitch < uint64_t{f.width} * kAtomBytes) {
    v.fault(fault::kInconsistentSizes, r::dma_con1::kLineStride, "a row pitch of ", f.line_pitch,
            " bytes is less than the ", f.width * kAtomBytes, " bytes of a row");
  }
  f.address = v.atom_address(r::feature_data_addr::kOffset);
  return f;
}

WeightBlock decode_weights(const BlockView& v, const CnaConfig& c) {
  const uint32_t channels = c.stored_channels();
  const bool is_depthwise = c.is_depthwise;
  const uint32_t element = element_bytes(c.element);
  WeightBlock w;
  w.kh = v.raw(r::weight_size2::kWeightHeight);
  w.kw = v.raw(r::weight_size2::kWeightWidth);
  w.kernels = v.raw(r::weight_size2::kWeightKernels);
  w.bytes = v.word(r::weight_size0::kOffset);
  w.bytes_per_kernel = v.raw(r::weight_size1::kWeightBytesPerKernel);
  require_positive(v, r::weight_size2::kWeightHeight);
  require_positive(v, r::weight_size2::kWeightWidth);
  require_positive(v, r::weight_size2::kWeightKernels);
  if (is_depthwise) {
    v.require(r::weight_size2::kWeightKernels, 1, "depthwise mode");
  }
  v.require(r::weight_size1::kWeightBytesPerKernel, uint64_t{w.kh} * w.kw * channels * element,
            "a kernel of ", w.kh, "x", w.kw, "x", channels, " stored ", element_name(c.element));
  v.require(r::weight_size0::kWeightBytes, uint64_t{w.bytes_per_kernel} * w.kernels, w.kernels,
            " kernels of ", w.bytes_per_kernel, " bytes");
  w.address = v.atom_address(r::dcomp_addr0::kOffset);
  return w;
}

void decode_window(const BlockView& v, CnaConfig* c) {
  c->stride_h = v.raw(r::conv_con3::kConvYStride);
  c->stride_w = v.raw(r::conv_con3::kConvXStride);
  require_positive(v, r::conv_con3::kConvYStride);
  require_positive(v, r::conv_con3::kConvXStride);
  c->dilation_h = v.raw(r::conv_con3::kAtrousYDilation) + 1;
  c->dilation_w = v.raw(r::conv_con3::kAtrousXDilation) + 1;
  c->pad_top = v.raw(r::pad_con0::kPadTop);
  c->pad_left = v.raw(r::pad_con0::kPadLeft);
  const uint32_t pad = v.word(r::pad_con1::kOffset);
  c->pad_even = static_cast<int8_t>(pad & 0xff);
  // Two forms occur in depthwise programs. One byte extended by its sign fills every lane
  // (observed: 4 is written as 0x00000004). Otherwise odd lanes take the second byte (observed only
  // with two equal bytes, 0xffff8080, so that the rule for different ones is assumed). Dense takes
  // the first byte everywhere.
  const bool is_extended = static_cast<int32_t>(pad) == c->pad_even;
  c->pad_half = static_cast<uint16_t>(pad);
  c->pad_odd = c->is_depthwise && !is_extended ? static_cast<int8_t>(pad >> 8 & 0xff) : c->pad_even;
}

void decode_output(const BlockView& v, CnaConfig* c) {
  c->out_width = v.raw(r::data_size2::kDataoutWidth);
  const uint32_t pixels = v.raw(r::data_size3::kDataoutAtomics);
  require_positive(v, r::data_size2::kDataoutWidth);
  if (pixels == 0 || pixels % c->out_width != 0) {
    v.fault(fault::kInconsistentSizes, r::data_size3::kDataoutAtomics, "is ", pixels,
            ", not a positive multiple of DATAOUT_WIDTH = ", c->out_width);
  }
  c->out_height = pixels / c->out_width;
  if (c->virtual_height() > kMaxVirtualSize || c->virtual_width() > kMaxVirtualSize) {
    v.fault(fault::kInvalidValue, r::conv_con3::kDeconvYStride, "makes an input of ",
            c->virtual_height(), "x", c->virtual_width(), " pixels; at most ", kMaxVirtualSize,
            " in each direction are known to work");
  }
  // A window that starts beyond the last row or column would see padding only; right and bottom
  // padding follow from the output size and stay smaller than the window.
  if (uint64_t{c->out_height - 1} * c->stride_h >= uint64_t{c->virtual_height()} + c->pad_top) {
    v.fault(fault::kInconsistentSizes, r::data_size3::kDataoutAtomics, c->out_height,
            " output rows with stride ", c->stride_h, " start beyond the ", c->virtual_height(),
            " input rows and ", c->pad_top, " rows of padding");
  }
  if (uint64_t{c->out_width - 1} * c->stride_w >= uint64_t{c->virtual_width()} + c->pad_left) {
    v.fault(fault::kInconsistentSizes, r::data_size2::kDataoutWidth, c->out_width,
            " output columns with stride ", c->stride_w, " start beyond the ", c->virtual_width(),
            " input columns and ", c->pad_left, " columns of padding");
  }
}

}  // namespace

CnaConfig decode_cna(const BlockView& v, const Chip& chip) {
  refuse_unsupported(v);
  CnaConfig c;
  c.chip = &chip;
  const uint32_t mode = v.raw(r::conv_con1::kConvMode);
  if (mode != kDirect && mode != kDepthwise) {
    v.fault(fault::kInvalidValue, r::conv_con1::kConvMode, "is ", mode,
            "; known are 0 (direct) and 3 (depthwise)");
  }
  c.is_depthwise = mode == kDepthwise;
  c.element = decode_cna_element(v);
  c.packed = decode_packed(v);
  c.deconv = decode_deconvolution(v);
  c.converter = decode_converter(v, c);
  check_burst(v, r::dma_con0::kWeightBurstLen);
  check_burst(v, r::dma_con0::kDataBurstLen);
  c.feature = decode_feature(v, c);
  c.weights = decode_weights(v, c);
  c.grains = v.raw(r::conv_con2::kFeatureGrains);
  c.cbuf.data_banks = v.raw(r::cbuf_con0::kDataBank);
  c.cbuf.weight_banks = v.raw(r::cbuf_con0::kWeightBank);
  c.cbuf.data_reuse = v.raw(r::cbuf_con0::kDataReuse) != 0;
  c.cbuf.weight_reuse = v.raw(r::cbuf_con0::kWeightReuse) != 0;
  // Tiles of packed pixels need one bit more than the field is documented to have (seen: 0x57e0).
  c.cbuf.entries_per_row = v.raw(r::cbuf_con1::kDataEntries) | v.raw(r::cbuf_con1::kDataEntriesHigh)
                                                                   << 14;
  decode_window(v, &c);
  decode_output(v, &c);
  return c;
}

uint64_t weight_offset(const CnaConfig& cna, uint32_t o, uint32_t i, uint32_t ky, uint32_t kx) {
  const WeightBlock& w = cna.weights;
  const uint32_t channels = cna.feature.channels;
  const uint32_t group = cna.group();
  const uint32_t o_first = o / group * group;
  const uint64_t taps = uint64_t{w.kh} * w.kw;
  const uint64_t tap = uint64_t{ky} * w.kw + kx;
  if (cna.is_depthwise) {
    const uint32_t in_group = stored_lanes(std::min(group, channels - o_first), cna.feature.lanes);
    return (o_first * taps + tap * in_group + (o - o_first)) * element_bytes(cna.element);
  }
  const uint32_t o_in_group = std::min(group, w.kernels - o_first);
  const uint32_t lanes = cna.chip->input_lanes;
  const uint32_t i_first = i / lanes * lanes;
  const uint32_t i_in_group = stored_lanes(std::min(lanes, channels - i_first), cna.feature.lanes);
  const uint64_t before = (i_first * taps + tap * i_in_group) * o_in_group;
  return uint64_t{o_first} * w.bytes_per_kernel +
         (before + uint64_t{o - o_first} * i_in_group + (i - i_first)) * element_bytes(cna.element);
}

std::array<int8_t, kAtomBytes> CnaConfig::pad_atom() const {
  std::array<int8_t, kAtomBytes> atom;
  for (uint32_t i = 0; i < kAtomBytes; ++i) {
    atom[i] = element == Element::kInt8 ? pad(i) : static_cast<int8_t>(pad_half >> i % 2 * 8);
  }
  return atom;
}

}  // namespace rk3588::sim
