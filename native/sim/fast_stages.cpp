#include <algorithm>
#include <cmath>

#include "sim/dpu_stages.h"
#include "sim/fast.h"

namespace rk3588::sim {
namespace {

constexpr double kInt32Max = 2147483647.0;
constexpr double kInt32Min = -2147483648.0;
// A 32-bit value times an operand of this size stays below 2^50: exact, and within reach of every
// rounding.
constexpr int64_t kMaxEwFactor = int64_t{1} << 18;

void set_limits(bool relu, bool relux, int32_t relux_max, double* low, double* high) {
  *low = relu ? 0.0 : kInt32Min;
  *high = kInt32Max;
  if (relux) {
    // min(max(x, 0), limit): a negative limit wins over the zero.
    *high = relux_max;
    *low = std::min(*low, *high);
  }
}

// Factors of values >= 0 and < 0; the shift goes by the sign of the product.
void set_factors(const XStage& stage, int16_t mul, double* ge, double* lt) {
  const int shift = static_cast<int>(stage.shift);
  const int shift_negative = static_cast<int>(stage.shift_negative);
  *ge = stage.mul_prelu ? 1.0
                        : std::ldexp(static_cast<double>(mul), -(mul < 0 ? shift_negative : shift));
  *lt = std::ldexp(static_cast<double>(mul), -(mul > 0 ? shift_negative : shift));
}

bool prepare_ew(const EwStage& ew, TaskStages* t) {
  switch (ew.operation) {
    case EwOperation::kOff:
      t->ew = EwKind::kOff;
      return true;
    case EwOperation::kAdd:
      t->ew = EwKind::kAdd;
      break;
    case EwOperation::kMinus:
      t->ew = EwKind::kMinus;
      break;
    case EwOperation::kMax:
      t->ew = EwKind::kMax;
      break;
    case EwOperation::kMin:
      t->ew = EwKind::kMin;
      break;
    case EwOperation::kMul:
      t->ew = EwKind::kMul;
      break;
  }
  t->ew_convert = ew.convert;
  t->ew_convert_away = ew.convert_half_away;
  t->ew_offset = ew.offset;
  t->ew_scale = std::ldexp(static_cast<double>(ew.scale), -static_cast<int>(ew.shift));
  t->ew_prelu = ew.mul_prelu;
  t->ew_mul_ge = std::ldexp(1.0, -static_cast<int>(ew.truncate));
  t->ew_mul_lt = std::ldexp(1.0, -static_cast<int>(ew.truncate_negative));
  if (ew.operation != EwOperation::kMul) return true;
  const auto is_small = [&](int32_t operand) {
    return std::abs(int64_t{convert_ew_operand(ew, operand)}) <= kMaxEwFactor;
  };
  // Conversion is monotonic, so the ends of int8 bound what memory can give.
  if (ew.source == Operand::kMemory) return is_small(-128) && is_small(127);
  return std::all_of(ew.values.begin(), ew.values.end(), is_small);
}

void prepare_surface(const TaskPlan& task, bool fold_ow, uint32_t surface, TaskStages* t,
                     SurfaceStages* s) {
  const DpuConfig& dpu = task.dpu;
  for (uint32_t lane = 0; lane < kAtomBytes; ++lane) {
    const uint32_t channel = surface * kAtomBytes + lane;
    const bool is_real = channel < dpu.real_channels;
    ChannelOperands c;
    if (is_real) c = channel_operands(dpu, task.operands, channel);
    s->bs_alu[lane] =
        dpu.bs.alu_minus ? -static_cast<double>(c.bs_alu) : static_cast<double>(c.bs_alu);
    s->ow[lane] = fold_ow ? 0.0 : c.ow;
    set_factors(dpu.bs, c.bs_mul, &s->bs_ge[lane], &s->bs_lt[lane]);
    set_factors(dpu.bn, c.bn_mul, &s->bn_ge[lane], &s->bn_lt[lane]);
    t->bs_split |= s->bs_ge[lane] != s->bs_lt[lane];
    t->bn_split |= s->bn_ge[lane] != s->bn_lt[lane];
    const EwStage& ew = dpu.ew;
    int32_t operand = ew.values[channel % ew.values.size()];
    if (!task.operands.ew_channels.empty()) operand = task.operands.ew_channels[channel];
    s->ew[lane] = convert_ew_operand(ew, operand);
    // Lanes that no channel has get a constant.
    s->out_scale[lane] =
        is_real ? std::ldexp(static_cast<double>(dpu.out.scale), -static_cast<int>(dpu.out.shift))
                : 0.0;
    s->out_offset[lane] =
        is_real ? static_cast<double>(dpu.out.offset) : static_cast<double>(dpu.pend);
  }
}

}  // namespace

bool prepare_stages(const TaskPlan& task, bool fold_ow, TaskStages* t,
                    std::vector<SurfaceStages>* surfaces) {
  const DpuConfig& dpu = task.dpu;
  *t = TaskStages{};
  if (task.is_conv) {
    t->has_truncate = task.core.truncate != 0;
    t->truncate = std::ldexp(1.0, -static_cast<int>(task.core.truncate));
    t->has_ow = dpu.ow != Operand::kOff && !fold_ow;
  }
  t->has_bs_alu = dpu.bs.alu != Operand::kOff;
  t->has_bs_mul = dpu.bs.mul != Operand::kOff;
  t->has_bn_alu = dpu.bn.alu != Operand::kOff;
  t->has_bn_mul = dpu.bn.mul != Operand::kOff;
  t->bn_alu = dpu.bn.alu_minus ? -static_cast<double>(dpu.bn.alu_operand)
                               : static_cast<double>(dpu.bn.alu_operand);
  set_limits(dpu.bs.relu, dpu.bs.relux, dpu.bs.relux_max, &t->bs_low, &t->bs_high);
  set_limits(dpu.bn.relu, dpu.bn.relux, dpu.bn.relux_max, &t->bn_low, &t->bn_high);
  set_limits(dpu.ew.relu, dpu.ew.relux, dpu.ew.relux_max, &t->ew_low, &t->ew_high);
  t->ew_per_pixel = dpu.ew.source == Operand::kMemory && static_cast<bool>(task.operands.ew);
  t->out_away = dpu.out.half_away;
  if (!prepare_ew(dpu.ew, t)) return false;
  const uint32_t count = (dpu.real_channels + kAtomBytes - 1) / kAtomBytes;
  surfaces->resize(count);
  for (uint32_t s = 0; s < count; ++s) prepare_surface(task, fold_ow, s, t, &(*surfaces)[s]);
  return true;
}

}  // namespace rk3588::sim
