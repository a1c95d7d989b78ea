#include <algorithm>
#include <cmath>

#include "sim/dpu_element.h"
#include "sim/fast.h"

namespace rk3588::sim {
namespace {

constexpr double kInt32Max = 2147483647.0;
constexpr double kInt32Min = -2147483648.0;
// A 32-bit value times an operand of this size stays below 2^50: exact, and within reach of every
// rounding.
constexpr int64_t kMaxEwFactor = int64_t{1} << 18;

void set_limits(const Relu& relu, double* low, double* high) {
  *low = relu.is_on ? 0.0 : kInt32Min;
  *high = kInt32Max;
  if (relu.is_limited) {
    // min(max(x, 0), limit): a negative limit wins over the zero.
    *high = relu.limit;
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

bool prepare_ew(const EwStage& ew, const std::vector<int32_t>& channels, TaskStages* t) {
  t->ew = ew.operation;
  if (ew.operation == EwOperation::kOff) return true;
  t->ew_convert = ew.convert;
  t->ew_convert_away = ew.convert_ties == Ties::kAway;
  t->ew_offset = ew.offset;
  t->ew_scale = std::ldexp(static_cast<double>(ew.scale), -static_cast<int>(ew.convert_shift));
  t->ew_prelu = ew.mul_prelu;
  t->ew_mul_ge = std::ldexp(1.0, -static_cast<int>(ew.shift));
  t->ew_mul_lt = std::ldexp(1.0, -static_cast<int>(ew.shift_negative));
  if (ew.operation != EwOperation::kMul) return true;
  const auto is_small = [&](int32_t operand) {
    return std::abs(int64_t{convert_ew_operand(ew, operand)}) <= kMaxEwFactor;
  };
  if (!channels.empty()) return std::all_of(channels.begin(), channels.end(), is_small);
  // Conversion is monotonic, so the ends of int8 bound what memory can give.
  if (ew.source == Operand::kMemory) return is_small(-128) && is_small(127);
  return std::all_of(ew.values.begin(), ew.values.end(), is_small);
}

// How large values can get, stage by stage; tells where limiting to 32 bits would change nothing.
class Bounds {
 public:
  // The accumulator of a convolution, or a byte.
  explicit Bounds(const TaskPlan& task) {
    if (!task.is_conv) {
      largest_ = 128.0;
      return;
    }
    const WeightBlock& w = task.cna.weights;
    const double inputs =
        static_cast<double>(w.kh) * w.kw * (task.cna.is_depthwise ? 1 : task.cna.feature.channels);
    double ow = 0.0;
    if (task.dpu.ow == Operand::kRegister) ow = std::abs(static_cast<double>(task.dpu.ow_operand));
    if (task.dpu.ow == Operand::kMemory) {
      for (const int16_t x : task.operands.bs.ow)
        ow = std::max(ow, std::abs(static_cast<double>(x)));
    }
    largest_ = inputs * 128.0 * (128.0 + ow);
  }

  // True if values must be limited; they are afterwards.
  bool exceeds() {
    const bool is_large = largest_ > kInt32Max;
    largest_ = std::min(largest_, -kInt32Min);
    return is_large;
  }
  // RELUX with a negative limit gives that limit.
  void include(const Relu& relu) {
    if (relu.is_limited) largest_ = std::max(largest_, std::abs(static_cast<double>(relu.limit)));
  }
  void add(double summand) { largest_ += summand; }
  void multiply(double factor) { largest_ = largest_ * factor + 1.0; }
  double largest() const { return largest_; }

 private:
  double largest_;
};

struct LargestFactors {
  double bs_alu = 0.0, bs = 0.0, bn = 0.0, bn_alu = 0.0, out = 0.0, out_offset = 0.0, ew = 0.0;
};

LargestFactors largest_factors(const std::vector<SurfaceStages>& surfaces) {
  LargestFactors f;
  const auto raise = [](double* to, double value) { *to = std::max(*to, std::abs(value)); };
  for (const SurfaceStages& s : surfaces) {
    for (int lane = 0; lane < kLanes; ++lane) {
      raise(&f.bs_alu, s.bs_alu[lane]);
      raise(&f.bs, s.bs_ge[lane]);
      raise(&f.bs, s.bs_lt[lane]);
      raise(&f.bn, s.bn_ge[lane]);
      raise(&f.bn, s.bn_lt[lane]);
      raise(&f.bn_alu, s.bn_alu[lane]);
      raise(&f.ew, s.ew[lane]);
      raise(&f.out, s.out_scale[lane]);
      raise(&f.out_offset, s.out_offset[lane]);
    }
  }
  return f;
}

void set_limit_flags(const TaskPlan& task, const std::vector<SurfaceStages>& surfaces,
                     TaskStages* t) {
  const LargestFactors f = largest_factors(surfaces);
  const DpuConfig& dpu = task.dpu;
  Bounds bounds(task);
  if (t->has_truncate) bounds.multiply(t->truncate);
  t->limit_accumulator = bounds.exceeds();
  if (t->has_bs_alu) bounds.add(f.bs_alu);
  t->limit_bs_alu = bounds.exceeds();
  if (t->has_bs_mul) bounds.multiply(f.bs);
  t->limit_bs = bounds.exceeds() || dpu.bs.relu.is_on;
  bounds.include(dpu.bs.relu);
  if (t->has_bn_mul) bounds.multiply(f.bn);
  if (t->has_bn_alu) {
    bounds.add(f.bn_alu);
    if (t->has_bn_mul) bounds.multiply(std::max(t->bn_shift_ge, t->bn_shift_lt));
  }
  t->limit_bn = bounds.exceeds() || dpu.bn.relu.is_on;
  bounds.include(dpu.bn.relu);
  double operand = f.ew;
  if (t->ew_per_pixel) {
    operand = 128.0;
    if (t->ew_convert) operand = (128.0 + std::abs(t->ew_offset)) * std::abs(t->ew_scale) + 1.0;
    t->limit_ew_operand = operand > kInt32Max;
    operand = std::min(operand, -kInt32Min);
  }
  if (t->ew == EwOperation::kMul) {
    bounds.multiply(std::max(1.0, operand * std::max(t->ew_mul_ge, t->ew_mul_lt)));
  } else if (t->ew != EwOperation::kOff) {
    bounds.add(operand);
  }
  t->limit_ew_operation = bounds.exceeds();
  t->limit_ew = dpu.ew.relu.is_on;
  bounds.include(dpu.ew.relu);
  bounds.multiply(f.out);
  bounds.add(f.out_offset + 1.0);
  t->limit_out = bounds.exceeds();
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
    s->bn_alu[lane] =
        dpu.bn.alu_minus ? -static_cast<double>(c.bn_alu) : static_cast<double>(c.bn_alu);
    if (t->has_bn_alu) {
      s->bn_ge[lane] = s->bn_lt[lane] = c.bn_mul;
    } else {
      set_factors(dpu.bn, c.bn_mul, &s->bn_ge[lane], &s->bn_lt[lane]);
    }
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
    s->out_offset_int[lane] = is_real ? dpu.out.offset : dpu.pend;
    s->out_offset[lane] =
        is_real ? static_cast<double>(dpu.out.offset) : static_cast<double>(dpu.pend);
  }
}

}  // namespace

bool prepare_stages(const TaskPlan& task, bool fold_ow, TaskStages* t,
                    std::vector<SurfaceStages>* surfaces) {
  const DpuConfig& dpu = task.dpu;
  *t = TaskStages{};
  // Operands per channel become numbers whatever their size, those per pixel are read as bytes.
  const bool has_bytes = dpu.ew.operand_bytes == 1 || !task.operands.ew_channels.empty();
  if (dpu.is_literal || !dpu.is_int8_without_table() || !has_bytes) return false;
  if (task.is_conv) {
    t->has_truncate = task.core.truncate != 0;
    t->truncate = std::ldexp(1.0, -static_cast<int>(task.core.truncate));
    t->has_ow = dpu.ow != Operand::kOff && !fold_ow;
  }
  t->has_bs_alu = dpu.bs.alu != Operand::kOff;
  t->has_bs_mul = dpu.bs.mul != Operand::kOff;
  t->has_bn_alu = dpu.bn.alu != Operand::kOff;
  t->has_bn_mul = dpu.bn.mul != Operand::kOff;
  t->bn_shift_ge = std::ldexp(1.0, -static_cast<int>(dpu.bn.shift));
  t->bn_shift_lt = std::ldexp(1.0, -static_cast<int>(dpu.bn.shift_negative));
  set_limits(dpu.bs.relu, &t->bs_low, &t->bs_high);
  set_limits(dpu.bn.relu, &t->bn_low, &t->bn_high);
  set_limits(dpu.ew.relu, &t->ew_low, &t->ew_high);
  t->ew_per_pixel = dpu.ew.source == Operand::kMemory && static_cast<bool>(task.operands.ew);
  t->out_away = dpu.out.ties == Ties::kAway;
  const uint32_t count = (dpu.real_channels + kAtomBytes - 1) / kAtomBytes;
  surfaces->resize(count);
  if (!prepare_ew(dpu.ew, task.operands.ew_channels, t)) return false;
  for (uint32_t s = 0; s < count; ++s) prepare_surface(task, fold_ow, s, t, &(*surfaces)[s]);
  set_limit_flags(task, *surfaces, t);
  return true;
}

}  // namespace rk3588::sim
