// The arithmetic of the DPU's stages for one value, as the documentation reads.
#pragma once

#include <algorithm>

#include "sim/dpu.h"
#include "sim/rdma.h"

namespace rk3588::sim {

// The per-channel operands that one value meets.
struct ChannelOperands {
  int32_t bs_alu = 0;
  int16_t bs_mul = 1;
  int16_t ow = 0;
  int32_t bn_alu = 0;
  int16_t bn_mul = 1;
};

ChannelOperands channel_operands(const DpuConfig& dpu, const Operands& operands, uint32_t channel);

// ALU, MUL, ReLU/RELUX; 64-bit inside, saturated to 32 bits after each step. A stage that
// multiplies first has (value * mul + alu) >> shift, the shift by the sign of the sum: the summand
// counts in units of the product.
int32_t run_x_stage(const XStage& stage, int32_t value, int32_t alu, int16_t mul);
// Applies EW's operation to two numbers; without one, returns the first.
template <typename Number>
Number combined(EwOperation operation, Number x, Number e) {
  switch (operation) {
    case EwOperation::kOff:
      break;
    case EwOperation::kAdd:
      return x + e;
    case EwOperation::kMinus:
      return x - e;
    case EwOperation::kMax:
      return std::max(x, e);
    case EwOperation::kMin:
      return std::min(x, e);
    case EwOperation::kMul:
      return x * e;
  }
  return x;
}

// The converted operand of EW.
int32_t convert_ew_operand(const EwStage& stage, int32_t operand);
int32_t run_ew_stage(const EwStage& stage, int32_t value, int32_t operand);

// The integer result before the output's type: scaled, rounded, offset added.
int64_t scale_output(const OutStage& stage, int32_t value);

}  // namespace rk3588::sim
