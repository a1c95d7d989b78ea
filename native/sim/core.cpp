#include "sim/core.h"

#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

namespace r = regs::core;

}  // namespace

CoreConfig decode_core(const BlockView& v, const CnaConfig& cna, const DpuConfig& dpu) {
  const uint16_t misc = r::misc_cfg::kOffset;
  v.only(misc, r::misc_cfg::kSoftGating, 0, "SOFT_GATING", "gating");
  CoreConfig c;
  v.require_equal(misc, "PROC_PRECISION", v.raw(misc, r::misc_cfg::kProcPrecision),
                  static_cast<int64_t>(cna.element), "CNA.CONV_CON1.PROC_PRECISION");
  c.sums_inputs = v.raw(misc, r::misc_cfg::kQdEn) != 0;
  const bool depthwise = v.raw(misc, r::misc_cfg::kDwEn) != 0;
  v.require_equal(misc, "DW_EN", depthwise, cna.is_depthwise, "CNA.CONV_CON1.CONV_MODE");
  v.require_equal(misc, "DW_EN", depthwise, dpu.is_depthwise, "DPU.FEATURE_MODE_CFG.CONV_MODE");
  const uint32_t height = v.value(r::dataout_size_0::kOffset, r::dataout_size_0::kDataoutHeight);
  const uint32_t width = v.value(r::dataout_size_0::kOffset, r::dataout_size_0::kDataoutWidth);
  const uint32_t channels = v.value(r::dataout_size_1::kOffset, r::dataout_size_1::kDataoutChannel);
  v.require_equal(r::dataout_size_0::kOffset, "DATAOUT_HEIGHT + 1", height, cna.out_height,
                  "CNA.DATA_SIZE2/3");
  v.require_equal(r::dataout_size_0::kOffset, "DATAOUT_WIDTH + 1", width, cna.out_width,
                  "CNA.DATA_SIZE2/3");
  const uint32_t cube =
      align_up(cna.is_depthwise ? cna.feature.channels : cna.weights.kernels, cna.group());
  v.require_equal(r::dataout_size_1::kOffset, "DATAOUT_CHANNEL + 1", channels, cube,
                  cna.is_depthwise ? "CNA.DATA_SIZE1.DATAIN_CHANNEL in whole groups"
                                   : "CNA.WEIGHT_SIZE2.WEIGHT_KERNELS in whole groups");
  const char* dpu_cube = "DPU.DATA_CUBE_*";
  v.require_equal(r::dataout_size_0::kOffset, "DATAOUT_HEIGHT + 1", height, dpu.height, dpu_cube);
  v.require_equal(r::dataout_size_0::kOffset, "DATAOUT_WIDTH + 1", width, dpu.width, dpu_cube);
  v.require_equal(r::dataout_size_1::kOffset, "DATAOUT_CHANNEL + 1", channels, dpu.channels,
                  dpu_cube);
  c.truncate = v.raw(r::clip_truncate::kOffset, r::clip_truncate::kClipTruncate);
  if (dpu.ow != Operand::kOff && !c.sums_inputs) {
    v.fault(fault::kOperandNotFetched, misc, "QD_EN",
            "is 0 but DPU.BS_OW_CFG uses the sum of the inputs; it needs 1");
  }
  const uint64_t products =
      uint64_t{cna.weights.kh} * cna.weights.kw * (cna.is_depthwise ? 1 : cna.feature.channels);
  if (cna.element == Element::kFp16) {
    if (c.truncate != 0) {
      v.fault(fault::kUnsupportedFeature, r::clip_truncate::kOffset, "CLIP_TRUNCATE",
              "a shift of floating point sums (" + std::to_string(c.truncate) +
                  ") is not modelled by this simulator; supported is 0");
    }
    return c;
  }
  if (products > kMaxProducts) {
    v.fault(fault::kAccumulatorRange, misc, nullptr,
            std::to_string(products) +
                " products per output can leave the 32-bit accumulator; "
                "at most " +
                std::to_string(kMaxProducts) + " are safe");
  }
  return c;
}

Accumulated accumulate(const CnaConfig& cna, const int8_t* feature, const int8_t* weights,
                       uint32_t channel, uint32_t y, uint32_t x) {
  const FeatureCube& f = cna.feature;
  const WeightBlock& w = cna.weights;
  const bool has_kernel = channel < (cna.is_depthwise ? f.channels : w.kernels);
  const uint32_t first = cna.is_depthwise ? channel : 0;
  const uint32_t last = cna.is_depthwise ? channel + 1 : f.channels;
  Accumulated sum;
  if (!has_kernel) return sum;
  for (uint32_t ky = 0; ky < w.kh; ++ky) {
    for (uint32_t kx = 0; kx < w.kw; ++kx) {
      const int8_t* pixel = cna.pixel(feature, y, x, ky, kx);
      for (uint32_t i = first; i < last; ++i) {
        const int32_t value = pixel != nullptr
                                  ? pixel[i / kAtomBytes * f.surface_pitch + i % kAtomBytes]
                                  : cna.pad(i);
        const uint64_t offset = cna.is_depthwise ? depthwise_weight_offset(cna, i, ky, kx)
                                                 : dense_weight_offset(cna, channel, i, ky, kx);
        sum.products += value * weights[offset];
        sum.inputs += value;
      }
    }
  }
  return sum;
}

// The OW term is added before the shift (observed: programs with CLIP_TRUNCATE = 1 compute right
// only so). Ties away from zero are assumed, for either ROUND_TYPE: the hardware's ancestor rounds
// so, and ties to even miss the known results of such programs more often than they allow.
int32_t finish_accumulator(const CoreConfig& core, const Accumulated& sum, int16_t ow) {
  const int64_t value = int64_t{sum.products} + int64_t{ow} * sum.inputs;
  return saturate32(shift_half_away(value, core.truncate));
}

}  // namespace rk3588::sim
