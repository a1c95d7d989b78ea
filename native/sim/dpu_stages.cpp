#include "sim/dpu_stages.h"

#include <algorithm>

#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

int32_t relu(int32_t value, bool enabled, bool limited, int32_t limit) {
  if (!enabled) return value;
  value = std::max(value, 0);
  return limited ? std::min(value, limit) : value;
}

// The shift depends on the sign of the product (observed), which is the sign of the value for the
// positive multipliers that compilers use.
int32_t shift_by_sign(int64_t product, uint32_t shift, uint32_t shift_negative, bool ties_up) {
  const Ties ties = ties_up ? Ties::kUp : Ties::kEven;
  return saturate32(shift_rounded(product, product < 0 ? shift_negative : shift, ties));
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
  c.bn_alu = dpu.bn.alu == Operand::kMemory ? operands.bn_alu[channel] : dpu.bn.alu_operand;
  c.bn_mul = dpu.bn.mul == Operand::kMemory ? operands.bn_mul[channel] : dpu.bn.mul_operand;
  return c;
}

int32_t run_bs_stage(const XStage& stage, int32_t value, const ChannelOperands& operands) {
  int32_t x = value;
  if (stage.alu != Operand::kOff) x = saturate32(int64_t{value} + summand(stage, operands.bs_alu));
  // PReLU: values >= 0 pass unchanged, neither multiplied nor shifted (assumed: shifts are 0 in
  // known programs).
  if (stage.mul != Operand::kOff && !(stage.mul_prelu && x >= 0)) {
    x = shift_by_sign(int64_t{x} * operands.bs_mul, stage.shift, stage.shift_negative,
                      stage.ties_up);
  }
  return relu(x, stage.relu, stage.relux, stage.relux_max);
}

int32_t run_bn_stage(const XStage& stage, int32_t value, const ChannelOperands& operands) {
  int32_t x = value;
  const int64_t sum = stage.alu == Operand::kOff ? 0 : summand(stage, operands.bn_alu);
  if (stage.mul == Operand::kOff) {
    x = saturate32(value + sum);
  } else if (!(stage.mul_prelu && value >= 0)) {
    x = shift_by_sign(int64_t{value} * operands.bn_mul + sum, stage.shift, stage.shift_negative,
                      stage.ties_up);
  }
  return relu(x, stage.relu, stage.relux, stage.relux_max);
}

int32_t convert_ew_operand(const EwStage& stage, int32_t operand) {
  if (!stage.convert) return operand;
  const int64_t product = (int64_t{operand} + stage.offset) * stage.scale;
  if (stage.converts_ties_up) return saturate32(shift_half_up(product, stage.shift));
  return saturate32(shift_rounded(product, stage.shift, stage.convert_half_away));
}

int32_t run_ew_stage(const EwStage& stage, int32_t value, int32_t operand) {
  const int64_t x = value;
  const int64_t e = convert_ew_operand(stage, operand);
  switch (stage.operation) {
    case EwOperation::kOff:
      break;
    case EwOperation::kAdd:
      value = saturate32(x + e);
      break;
    case EwOperation::kMinus:
      value = saturate32(x - e);
      break;
    case EwOperation::kMax:
      value = saturate32(std::max(x, e));
      break;
    case EwOperation::kMin:
      value = saturate32(std::min(x, e));
      break;
    case EwOperation::kMul:
      if (!(stage.mul_prelu && value >= 0)) {
        value = shift_by_sign(x * e, stage.truncate, stage.truncate_negative, stage.ties_up);
      }
      break;
  }
  return relu(value, stage.relu, stage.relux, stage.relux_max);
}

int64_t scale_output(const OutStage& stage, int32_t value) {
  const int64_t product = int64_t{value} * stage.scale;
  if (stage.ties_up) return shift_half_up(product, stage.shift) + stage.offset;
  return shift_rounded(product, stage.shift, stage.half_away) + stage.offset;
}

}  // namespace rk3588::sim
