#include "sim/dpu_stages.h"

#include <algorithm>

#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

int32_t limited(int32_t value, const Relu& relu) {
  if (!relu.is_on) return value;
  value = std::max(value, 0);
  return relu.is_limited ? std::min(value, relu.limit) : value;
}

// The shift depends on the sign of the product (observed), which is the sign of the value for the
// positive multipliers that compilers use.
int32_t shift_by_sign(int64_t product, const StageEnd& end) {
  const uint32_t shift = product < 0 ? end.shift_negative : end.shift;
  return saturate32(shift_rounded(product, shift, end.ties));
}

int64_t summand(const XStage& stage, int32_t alu) {
  return stage.alu_minus ? -int64_t{alu} : int64_t{alu};
}

}  // namespace

ChannelOperands channel_operands(const DpuConfig& dpu, const Operands& operands, uint32_t channel) {
  ChannelOperands c;
  c.bs_alu = dpu.bs.alu == Operand::kMemory ? operands.bs.alu[channel] : dpu.bs.alu_operand;
  c.bs_mul = dpu.bs.mul == Operand::kMemory ? operands.bs.mul[channel] : dpu.bs.mul_operand;
  if (dpu.ow != Operand::kOff) {
    c.ow = dpu.ow == Operand::kMemory ? operands.bs.ow[channel] : dpu.ow_operand;
  }
  c.bn_alu = dpu.bn.alu == Operand::kMemory ? operands.bn.alu[channel] : dpu.bn.alu_operand;
  c.bn_mul = dpu.bn.mul == Operand::kMemory ? operands.bn.mul[channel] : dpu.bn.mul_operand;
  return c;
}

int32_t run_x_stage(const XStage& stage, int32_t value, int32_t alu, int16_t mul) {
  const int64_t sum = stage.alu == Operand::kOff ? 0 : summand(stage, alu);
  const bool multiplies = stage.mul != Operand::kOff;
  const bool adds_last = stage.multiplies_first && multiplies;
  int32_t x = adds_last ? value : saturate32(value + sum);
  // PReLU: values >= 0 pass unchanged, neither multiplied nor shifted (assumed: shifts are 0 in
  // known programs).
  if (multiplies && !(stage.mul_prelu && x >= 0)) {
    const int64_t product = int64_t{x} * mul + (adds_last ? sum : 0);
    x = shift_by_sign(product, stage);
  }
  return limited(x, stage.relu);
}

int32_t convert_ew_operand(const EwStage& stage, int32_t operand) {
  if (!stage.convert) return operand;
  const int64_t product = stage.scales_first ? int64_t{operand} * stage.scale + stage.offset
                                             : (int64_t{operand} + stage.offset) * stage.scale;
  return saturate32(shift_rounded(product, stage.convert_shift, stage.convert_ties));
}

int32_t run_ew_stage(const EwStage& stage, int32_t value, int32_t operand) {
  if (!stage.passes(value)) {
    const int64_t result =
        combined<int64_t>(stage.operation, value, convert_ew_operand(stage, operand));
    value =
        stage.operation == EwOperation::kMul ? shift_by_sign(result, stage) : saturate32(result);
  }
  return limited(value, stage.relu);
}

int64_t scale_output(const OutStage& stage, int32_t value) {
  const int64_t product = (value + int64_t{stage.adds_first ? stage.offset : 0}) * stage.scale;
  const int64_t scaled = shift_rounded(product, stage.shift, stage.ties);
  if (stage.adds_first) return scaled;
  return (stage.saturates_first ? saturate8(scaled) : scaled) + stage.offset;
}

}  // namespace rk3588::sim
