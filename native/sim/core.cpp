#include "sim/core.h"

#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

namespace r = regs::core;

constexpr char kCube[] = "DPU.DATA_CUBE_*";

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

}  // namespace rk3588::sim
