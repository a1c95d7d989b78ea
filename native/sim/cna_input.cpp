#include "sim/cna.h"
#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

namespace r = regs::cna;

// ARGB_IN: 8 to 11 for 1 to 4 channels.
constexpr uint32_t kArgbFirst = 8;
constexpr uint32_t kArgbLast = 11;

// (x + offset) * scale >> shift, or multiplication first; the lower 8 bits saturated.
int8_t convert(const InputConverter& c, uint32_t channel, uint8_t byte) {
  const int64_t x = c.is_signed ? static_cast<int8_t>(byte) : byte;
  if ((c.channels >> channel & 1) == 0) return static_cast<int8_t>(byte);
  const int64_t scale = c.scale[channel];
  const int64_t offset = c.offset[channel];
  if (c.add_first) {
    return saturate8(shift_rounded((x + offset) * scale, c.shift[channel], c.ties));
  }
  return saturate8(shift_rounded(x * scale, c.shift[channel], c.ties) + offset);
}

void unpack_pixels(CnaConfig* c, const int8_t** feature, std::vector<int8_t>* memory) {
  FeatureCube& f = c->feature;
  const uint32_t element = element_bytes(c->element);
  memory->assign(size_t{f.height} * f.width * kAtomBytes, 0);
  int8_t* out = memory->data();
  for (uint32_t y = 0; y < f.height; ++y) {
    const int8_t* in = *feature + y * f.line_pitch;
    for (uint32_t x = 0; x < f.width; ++x, out += kAtomBytes) {
      for (uint32_t i = 0; i < c->packed.channels * element; ++i, ++in) {
        out[i] = c->converter.is_on ? convert(c->converter, i, static_cast<uint8_t>(*in)) : *in;
      }
    }
  }
  f.line_pitch = uint64_t{f.width} * kAtomBytes;
  f.surface_pitch = f.line_pitch * f.height;
  *feature = memory->data();
}

void insert_pads(CnaConfig* c, const int8_t** feature, std::vector<int8_t>* memory) {
  const FeatureCube old = c->feature;
  FeatureCube& f = c->feature;
  std::vector<int8_t> spread(size_t{c->virtual_height()} * c->virtual_width() * f.surfaces() *
                             kAtomBytes);
  const std::array<int8_t, kAtomBytes> pad = c->pad_atom();
  int8_t* out = spread.data();
  const uint32_t height = c->virtual_height();
  const uint32_t width = c->virtual_width();
  for (uint32_t s = 0; s < f.surfaces(); ++s) {
    for (uint32_t y = 0; y < height; ++y) {
      const bool has_row = y % c->deconv.stride_h == 0;
      const int8_t* row =
          *feature + s * old.surface_pitch + y / c->deconv.stride_h * old.line_pitch;
      for (uint32_t x = 0; x < width; ++x, out += kAtomBytes) {
        const bool has_pixel = has_row && x % c->deconv.stride_w == 0;
        const int8_t* atom =
            has_pixel ? row + size_t{x / c->deconv.stride_w} * kAtomBytes : pad.data();
        std::memcpy(out, atom, kAtomBytes);
      }
    }
  }
  f.height = height;
  f.width = width;
  f.line_pitch = uint64_t{width} * kAtomBytes;
  f.surface_pitch = f.line_pitch * height;
  memory->swap(spread);
  *feature = memory->data();
}

}  // namespace

Element decode_cna_element(const BlockView& v) {
  const auto in = static_cast<Element>(v.raw(r::conv_con1::kInPrecision));
  const auto proc = static_cast<Element>(v.raw(r::conv_con1::kProcPrecision));
  if (in != Element::kInt8 && in != Element::kFp16) {
    v.fault(fault::kUnsupportedFeature, r::conv_con1::kInPrecision, element_name(in),
            " input is not modelled by this simulator; supported are int8 and fp16");
  }
  if (proc != in) {
    v.fault(fault::kUnsupportedFeature, r::conv_con1::kProcPrecision, element_name(proc), " from ",
            element_name(in),
            " input is not modelled by this simulator; supported is the input's own type");
  }
  return in;
}

PackedPixels decode_packed(const BlockView& v) {
  const uint32_t mode = v.raw(r::conv_con1::kArgbIn);
  PackedPixels p;
  if (mode == 0) {
    v.only(r::conv_con1::kNonalignDma, 0, "unaligned DMA of a cube");
    return p;
  }
  if (mode < kArgbFirst || mode > kArgbLast) {
    v.fault(fault::kInvalidValue, r::conv_con1::kArgbIn, "is ", mode,
            "; known are 0 and 8 to 11 for 1 to 4 channels");
  }
  if (v.raw(r::conv_con1::kNonalignDma) == 0) {
    v.complain(fault::kInvalidValue, r::conv_con1::kNonalignDma,
               "is 0 with packed pixels, which lie at any address; it needs 1");
  }
  if (v.raw(r::conv_con1::kGroupLineOff) == 0) {
    v.complain(fault::kInvalidValue, r::conv_con1::kGroupLineOff,
               "is 0 with packed pixels; every known program has 1");
  }
  p.is_on = true;
  p.channels = mode - kArgbFirst + 1;
  return p;
}

Deconvolution decode_deconvolution(const BlockView& v) {
  Deconvolution d;
  d.is_on = v.raw(r::conv_con1::kDeconv) != 0;
  const auto stride_h = static_cast<uint32_t>(v.value(r::conv_con3::kDeconvYStride));
  const auto stride_w = static_cast<uint32_t>(v.value(r::conv_con3::kDeconvXStride));
  if (!d.is_on && (stride_h != 1 || stride_w != 1)) {
    v.fault(fault::kInvalidValue, r::conv_con3::kDeconvYStride,
            "inserts pixels while CNA.CONV_CON1.DECONV is 0; no known program does that");
  }
  if (d.is_on) {
    d.stride_h = stride_h;
    d.stride_w = stride_w;
  }
  return d;
}

InputConverter decode_converter(const BlockView& v, const CnaConfig& config) {
  InputConverter c;
  const uint32_t con0 = v.word(r::cvt_con0::kOffset);
  if (r::cvt_con0::kCvtBypass.raw(con0) != 0) return c;
  if (!config.packed.is_on || config.element != Element::kInt8) {
    v.fault(fault::kUnsupportedFeature, r::cvt_con0::kCvtBypass,
            "the input converter is modelled for packed 8-bit pixels only; elsewhere supported "
            "is 1");
  }
  c.is_on = true;
  c.is_signed = r::cvt_con0::kDataSign.raw(con0) != 0;
  c.add_first = r::cvt_con0::kCvtType.raw(con0) != 0;
  if (r::cvt_con0::kRoundType.raw(con0) != 0) c.ties = Ties::kAway;
  c.channels = v.word(r::cvt_con5::kOffset);
  c.shift[0] = r::cvt_con0::kCvtTruncate0.raw(con0);
  c.shift[1] = r::cvt_con0::kCvtTruncate1.raw(con0);
  c.shift[2] = r::cvt_con0::kCvtTruncate2.raw(con0);
  c.shift[3] = r::cvt_con0::kCvtTruncate3.raw(con0);
  for (uint16_t i = 0; i < config.packed.channels; ++i) {
    const uint32_t word = v.word(r::cvt_con1::kOffset + 4 * i);
    c.scale[i] = static_cast<int16_t>(r::cvt_con1::kCvtScale0.value(word));
    c.offset[i] = static_cast<int16_t>(r::cvt_con1::kCvtOffset0.value(word));
  }
  return c;
}

void decode_packed_feature(const BlockView& v, const CnaConfig& c, FeatureCube* f) {
  // A row begins every 16 bytes per channel, whatever the strides say, and all of it is fetched:
  // what lies behind the last pixel takes part as padding on the right.
  const uint32_t stride = v.raw(r::dma_con1::kLineStride);
  const uint32_t pitch = (stride + f->lanes - 1) / f->lanes * f->lanes;
  f->width = (f->width + f->lanes - 1) / f->lanes * f->lanes;
  if (pitch < f->width && f->height > 1) {
    v.fault(fault::kInconsistentSizes, r::dma_con1::kLineStride, "is ", stride,
            " pixels, less than the ", f->width, " of a row");
  }
  if (f->channels != f->lanes) {
    v.fault(fault::kInconsistentSizes, r::data_size1::kDatainChannel, "is ", f->channels,
            "; packed pixels fill one surface of ", f->lanes, " channels");
  }
  const uint32_t real = v.raw(r::data_size1::kDatainChannelReal) + 1;
  if (real != c.packed.channels) {
    v.complain(fault::kInconsistentSizes, r::data_size1::kDatainChannelReal, "+ 1 is ", real,
               " but ARGB_IN says ", c.packed.channels, " channels");
  }
  f->line_pitch = uint64_t{pitch} * c.packed.channels * element_bytes(c.element);
  f->surface_pitch = 0;
}

void expand_features(CnaConfig* c, const int8_t** feature, std::vector<int8_t>* memory) {
  if (c->packed.is_on) unpack_pixels(c, feature, memory);
  if (c->deconv.is_on) insert_pads(c, feature, memory);
}

}  // namespace rk3588::sim
