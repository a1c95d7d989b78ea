#include "sim/core.h"

#include <cmath>

#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

namespace r = regs::core;

constexpr char kCube[] = "DPU.DATA_CUBE_*";

// fp16 numbers are multiples of 2^-24, so products are multiples of 2^-48; 32 of them stay below
// 2^37, which with the 48 bits of fraction fits 128 bits with room to spare.
__extension__ typedef __int128 Fixed;
constexpr int kFractionBits = 48;
constexpr int kFloatBits = 24;

bool is_finite(uint16_t half) { return (half & 0x7c00) != 0x7c00; }

// The number as an integer times 2^(shift - 24).
int32_t split(uint16_t half, int* shift) {
  const int exponent = half >> 10 & 31;
  const int32_t mantissa = exponent == 0 ? half & 0x3ff : (half & 0x3ff) | 0x400;
  *shift = exponent == 0 ? 0 : exponent - 1;
  return (half & 0x8000) != 0 ? -mantissa : mantissa;
}

// To nearest, ties to even. Sums of products of fp16 never leave the range of fp32.
float round_to_float(Fixed value) {
  const bool negative = value < 0;
  auto magnitude = negative ? -value : value;
  int exponent = 0;
  while (magnitude >> 62 != 0) {
    // Shifting keeps what was lost as a sticky last bit.
    magnitude = magnitude >> 1 | (magnitude & 1);
    ++exponent;
  }
  auto low = static_cast<uint64_t>(magnitude);
  int bits = 0;
  while (bits < 63 && low >> bits != 0) ++bits;
  if (bits > kFloatBits) {
    const int drop = bits - kFloatBits;
    const uint64_t rest = low & ((uint64_t{1} << drop) - 1);
    const uint64_t half = uint64_t{1} << (drop - 1);
    low >>= drop;
    if (rest > half || (rest == half && (low & 1) != 0)) ++low;
    exponent += drop;
  }
  const float result = std::ldexp(static_cast<float>(low), exponent - kFractionBits);
  return negative ? -result : result;
}

// One group of products: exact sum, one rounding.
class GroupSum {
 public:
  void add(uint16_t a, uint16_t b) {
    if (!is_finite(a) || !is_finite(b)) {
      has_special_ = true;
      special_ += half_to_float(a) * half_to_float(b);
      return;
    }
    int shift_a = 0;
    int shift_b = 0;
    const int64_t product = int64_t{split(a, &shift_a)} * split(b, &shift_b);
    fixed_ += static_cast<Fixed>(product) * (static_cast<Fixed>(1) << (shift_a + shift_b));
  }
  float value() const { return has_special_ ? special_ : round_to_float(fixed_); }

 private:
  Fixed fixed_ = 0;
  float special_ = 0.0f;  // infinities and NaN win over finite products (assumed)
  bool has_special_ = false;
};

}  // namespace

CoreConfig decode_core(const BlockView& v, const CnaConfig& cna, const DpuConfig& dpu) {
  v.only(r::misc_cfg::kSoftGating, 0, "gating");
  CoreConfig c;
  v.require(r::misc_cfg::kProcPrecision, static_cast<int64_t>(cna.element),
            "CNA.CONV_CON1.PROC_PRECISION");
  c.sums_inputs = v.raw(r::misc_cfg::kQdEn) != 0;
  v.require(r::misc_cfg::kDwEn, cna.is_depthwise, "CNA.CONV_CON1.CONV_MODE");
  v.require(r::misc_cfg::kDwEn, dpu.is_depthwise, "DPU.FEATURE_MODE_CFG.CONV_MODE");
  v.require(r::dataout_size_0::kDataoutHeight, cna.out_height, "CNA.DATA_SIZE2/3");
  v.require(r::dataout_size_0::kDataoutWidth, cna.out_width, "CNA.DATA_SIZE2/3");
  v.require(r::dataout_size_1::kDataoutChannel,
            align_up(cna.is_depthwise ? cna.feature.channels : cna.weights.kernels, cna.group()),
            cna.is_depthwise ? "CNA.DATA_SIZE1.DATAIN_CHANNEL in whole groups"
                             : "CNA.WEIGHT_SIZE2.WEIGHT_KERNELS in whole groups");
  v.require(r::dataout_size_0::kDataoutHeight, dpu.height, kCube);
  v.require(r::dataout_size_0::kDataoutWidth, dpu.width, kCube);
  v.require(r::dataout_size_1::kDataoutChannel, dpu.channels, kCube);
  c.truncate = v.raw(r::clip_truncate::kClipTruncate);
  if (dpu.ow != Operand::kOff && !c.sums_inputs) {
    v.fault(fault::kOperandNotFetched, r::misc_cfg::kQdEn,
            "is 0 but DPU.BS_OW_CFG uses the sum of the inputs; it needs 1");
  }
  const uint64_t products =
      uint64_t{cna.weights.kh} * cna.weights.kw * (cna.is_depthwise ? 1 : cna.feature.channels);
  if (cna.element == Element::kFp16) {
    if (c.truncate != 0) {
      v.fault(fault::kUnsupportedFeature, r::clip_truncate::kClipTruncate,
              "a shift of floating point sums (", c.truncate,
              ") is not modelled by this simulator; supported is 0");
    }
    return c;
  }
  if (products > kMaxProducts) {
    v.fault(fault::kAccumulatorRange, r::misc_cfg::kOffset, products,
            " products per output can leave the 32-bit accumulator; at most ", kMaxProducts,
            " are safe");
  }
  return c;
}

Accumulated accumulate(const CnaConfig& cna, const int8_t* feature, const int8_t* weights,
                       uint32_t channel, uint32_t y, uint32_t x) {
  const FeatureCube& f = cna.feature;
  Accumulated sum;
  const auto add = [&](const int8_t* pixel, uint32_t first, uint32_t end, uint32_t ky,
                       uint32_t kx) {
    for (uint32_t i = first; i < end; ++i) {
      const int32_t value =
          pixel != nullptr ? pixel[i / kAtomBytes * f.surface_pitch + i % kAtomBytes] : cna.pad(i);
      sum.products += value * weights[weight_offset(cna, channel, i, ky, kx)];
      sum.inputs += value;
    }
  };
  cna.for_window(feature, channel, y, x, add);
  return sum;
}

// The OW term is added before the shift (observed: programs with CLIP_TRUNCATE = 1 compute right
// only so). Ties away from zero are assumed, for either ROUND_TYPE: the hardware's ancestor rounds
// so, and ties to even miss the known results of such programs more often than they allow.
int32_t finish_accumulator(const CoreConfig& core, const Accumulated& sum, int16_t ow) {
  const int64_t value = int64_t{sum.products} + int64_t{ow} * sum.inputs;
  return saturate32(shift_rounded(value, core.truncate, core.ties));
}

float exact_dot(const uint16_t* a, const uint16_t* b, size_t b_step, size_t count) {
  GroupSum products;
  for (size_t i = 0; i < count; ++i) products.add(a[i], b[i * b_step]);
  return products.value();
}

// The order over groups and taps is that of the weights (assumed; matrix products, the only
// measured case, have one tap).
float accumulate_float(const CnaConfig& cna, const int8_t* feature, const int8_t* weights,
                       uint32_t channel, uint32_t y, uint32_t x) {
  const FeatureCube& f = cna.feature;
  float sum = 0.0f;
  const auto add = [&](const int8_t* pixel, uint32_t first, uint32_t end, uint32_t ky,
                       uint32_t kx) {
    GroupSum products;
    for (uint32_t i = first; i < end; ++i) {
      const uint16_t value =
          pixel != nullptr ? load_half(pixel + i / f.lanes * f.surface_pitch + i % f.lanes * 2)
                           : cna.pad_half;
      products.add(value, load_half(weights + weight_offset(cna, channel, i, ky, kx)));
    }
    sum += products.value();
  };
  cna.for_window(feature, channel, y, x, add);
  return sum;
}

}  // namespace rk3588::sim
