#include "sim/dpu_element.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "sim/rounding.h"
#include "sim/thread_pool.h"

namespace rk3588::sim {
namespace {

void note(Steps* steps, const char* name, double value) {
  if (steps != nullptr) steps->emplace_back(name, value);
}

// A number as registers and memory hold it.
template <typename Number>
Number number_of(int32_t bits) {
  if constexpr (std::is_same_v<Number, float>) {
    return float_of_bits(static_cast<uint32_t>(bits));
  } else {
    return bits;
  }
}

template <typename Number>
Number limited(Number value, const Relu& relu) {
  if (!relu.is_on) return value;
  value = std::max(value, Number{0});
  return relu.is_limited ? std::min(value, number_of<Number>(relu.limit)) : value;
}

// The shift depends on the sign of the product (observed), which is the sign of the value for the
// positive multipliers that compilers use.
int32_t shift_by_sign(int64_t product, const StageEnd& end) {
  const uint32_t shift = product < 0 ? end.shift_negative : end.shift;
  return saturate32(shift_rounded(product, shift, end.ties));
}

// BS or BN: ALU, MUL, ReLU/RELUX. Integers: 64 bits inside, saturated to 32 after each step; a
// stage that multiplies first has (value * mul + alu) >> shift, the shift by the sign of the sum:
// the summand counts in units of the product. fp32: ALU operands and limits are fp32 bits,
// multipliers fp16 bits; products and sums are rounded one after the other (assumed).
template <typename Number>
Number run_x_stage(const char* name, const XStage& stage, Number value, int32_t alu, int16_t mul,
                   Steps* steps) {
  constexpr bool kIsFloat = std::is_same_v<Number, float>;
  using Wide = std::conditional_t<kIsFloat, float, int64_t>;
  const bool adds = stage.alu != Operand::kOff;
  const bool multiplies = stage.mul != Operand::kOff;
  const bool adds_last = adds && multiplies && stage.multiplies_first;
  const Wide operand = adds ? number_of<Number>(alu) : Number{0};
  const Wide summand = stage.alu_minus ? -operand : operand;
  Wide factor = mul;
  if constexpr (kIsFloat) factor = multiplies ? half_to_float(static_cast<uint16_t>(mul)) : 1.0f;

  Wide wide = value;
  if (adds && !adds_last) wide += summand;
  if constexpr (!kIsFloat) wide = saturate32(wide);
  const auto summed = static_cast<Number>(wide);
  // PReLU: values >= 0 pass unchanged, neither multiplied nor shifted (assumed: shifts are 0 in
  // known programs).
  const bool is_multiplied = multiplies && !(stage.mul_prelu && summed >= 0);
  if (is_multiplied) wide *= factor;
  if (adds_last && (kIsFloat || is_multiplied)) wide += summand;
  if constexpr (!kIsFloat) wide = is_multiplied ? shift_by_sign(wide, stage) : wide;
  const auto product = static_cast<Number>(wide);
  const Number result = limited(product, stage.relu);
  if (steps == nullptr) return result;

  const auto add = [&](const char* what, auto number) {
    steps->emplace_back(std::string(name) + what, static_cast<double>(number));
  };
  // BN's shift belongs to the sum, so that a product that meets a summand is shown before it.
  const auto add_product = [&] {
    if (!multiplies) return;
    add(".MUL operand", factor);
    if (adds_last) return add(".product", static_cast<double>(value) * static_cast<double>(factor));
    add(".MUL", product);
  };
  if (stage.multiplies_first) add_product();
  if (adds) {
    add(".ALU operand", operand);
    add(".ALU", adds_last ? product : summed);
  }
  if (!stage.multiplies_first) add_product();
  if (stage.relu.is_on) add(".RELU", result);
  return result;
}

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

template <typename Number>
Number end_ew_stage(const EwStage& stage, Number value, Steps* steps) {
  if (stage.operation != EwOperation::kOff) note(steps, "EW", value);
  const Number result = limited(value, stage.relu);
  if (stage.relu.is_on) note(steps, "EW.RELU", result);
  return result;
}

int32_t run_ew_stage(const EwStage& stage, int32_t value, int32_t operand, Steps* steps) {
  const int32_t converted = convert_ew_operand(stage, operand);
  if (stage.operation != EwOperation::kOff) {
    note(steps, "EW.operand", operand);
    note(steps, "EW.converted operand", converted);
  }
  if (!stage.passes(value)) {
    const int64_t result = combined<int64_t>(stage.operation, value, converted);
    value =
        stage.operation == EwOperation::kMul ? shift_by_sign(result, stage) : saturate32(result);
  }
  return end_ew_stage(stage, value, steps);
}

// `operand` is what ERDMA read: fp16 or fp32 bits by the stage's operand size.
float run_ew_stage(const EwStage& stage, float value, int32_t operand, Steps* steps) {
  const bool is_half = stage.source == Operand::kMemory && stage.operand_bytes == 2;
  const float e =
      is_half ? half_to_float(static_cast<uint16_t>(operand)) : number_of<float>(operand);
  if (!stage.passes(value)) value = combined(stage.operation, value, e);
  return end_ew_stage(stage, value, steps);
}

// The integer result before the output's type: scaled, rounded, offset added.
int64_t scale_output(const OutStage& stage, int32_t value) {
  const int64_t product = (value + int64_t{stage.adds_first ? stage.offset : 0}) * stage.scale;
  const int64_t scaled = shift_rounded(product, stage.shift, stage.ties);
  if (stage.adds_first) return scaled;
  return (stage.saturates_first ? saturate8(scaled) : scaled) + stage.offset;
}

int16_t saturate16(int64_t value) {
  return static_cast<int16_t>(std::clamp<int64_t>(value, INT16_MIN, INT16_MAX));
}

uint32_t float_output(const DpuConfig& dpu, float value) {
  if (dpu.out_element == Element::kFp16) {
    const uint16_t half = float_to_half(value);
    const bool is_beyond = std::fabs(half_to_float(half)) > std::fabs(value);
    return dpu.out.ties == Ties::kToZero && is_beyond ? half - 1u : half;
  }
  constexpr uint32_t kNan = 0x7fc00000;
  return std::isnan(value) ? kNan : bits_of_float(value);
}

// To the nearest integer, ties to even, saturated: what indexes the tables.
int32_t to_index(float value) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(static_cast<double>(value));
  return static_cast<int32_t>(std::clamp(rounded, -2147483648.0, 2147483647.0));
}

float look_up(const LutConfig& lut, float value) {
  return static_cast<float>(sim::look_up(lut, to_index(value)));
}

// OUT_CVT of a floating point task: table results are integers and scaled, shifted and summed as
// such; MINUS_EXP makes numbers of them.
float scale_float(const DpuConfig& dpu, float value) {
  const OutStage& out = dpu.out;
  const float scaled = dpu.lut.is_on ? static_cast<float>(scale_output(out, to_index(value)))
                                     : value * static_cast<float>(out.scale);
  return std::ldexp(scaled, -static_cast<int>(out.minus_exp));
}

// All stages before OUT_CVT.
template <typename Number>
Number run_stages(const DpuConfig& dpu, const ChannelOperands& operands, Number x,
                  int32_t ew_operand, Steps* steps) {
  x = run_x_stage("BS", dpu.bs, x, operands.bs_alu, operands.bs_mul, steps);
  x = run_x_stage("BN", dpu.bn, x, operands.bn_alu, operands.bn_mul, steps);
  if (dpu.lut.is_on) note(steps, "EW.LUT", x = look_up(dpu.lut, x));
  return run_ew_stage(dpu.ew, x, ew_operand, steps);
}

int32_t integer_input(const TaskPlan& task, const ChannelOperands& operands, uint32_t channel,
                      uint32_t y, uint32_t x, Steps* steps) {
  if (!task.is_conv) return task.operands.main.element(channel, uint64_t{y} * task.dpu.width + x);
  const Accumulated sum = accumulate(task.cna, task.feature, task.weights, channel, y, x);
  note(steps, "CORE.sum of products", sum.products);
  if (task.dpu.ow != Operand::kOff) {
    note(steps, "CORE.sum of inputs", sum.inputs);
    note(steps, "BS.OW operand", operands.ow);
  }
  return finish_accumulator(task.core, sum, operands.ow);
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

int32_t ew_operand_of(const TaskPlan& task, uint32_t channel, uint64_t pixel) {
  const EwStage& ew = task.dpu.ew;
  if (ew.source != Operand::kMemory) return ew.values[channel % ew.values.size()];
  const Operands& operands = task.operands;
  if (!operands.ew_channels.empty()) return operands.ew_channels[channel];
  return operands.ew ? operands.ew.element(channel, pixel) : 0;
}

int32_t convert_ew_operand(const EwStage& stage, int32_t operand) {
  if (!stage.convert) return operand;
  const int64_t product = stage.scales_first ? int64_t{operand} * stage.scale + stage.offset
                                             : (int64_t{operand} + stage.offset) * stage.scale;
  return saturate32(shift_rounded(product, stage.convert_shift, stage.convert_ties));
}

uint32_t run_integer_element(const DpuConfig& dpu, const ChannelOperands& operands, int32_t value,
                             int32_t ew_operand, Steps* steps) {
  const int32_t x = run_stages(dpu, operands, value, ew_operand, steps);
  const int64_t result = scale_output(dpu.out, x);
  note(steps, "OUT_CVT.scaled", static_cast<double>(result - dpu.out.offset));
  note(steps, "OUT_CVT.with offset", static_cast<double>(result));
  switch (dpu.out_element) {
    case Element::kInt8:
      return static_cast<uint8_t>(dpu.out.wraps ? result : saturate8(result));
    case Element::kInt16:
      return static_cast<uint16_t>(saturate16(result));
    case Element::kInt32:
      return static_cast<uint32_t>(saturate32(result));
    default:
      // fp16 from integers: the scaled number over 2^MINUS_EXP (seen behind tables of Q0.15).
      return float_to_half(static_cast<float>(std::ldexp(static_cast<double>(saturate32(result)),
                                                         -static_cast<int>(dpu.out.minus_exp))));
  }
}

uint32_t run_float_element(const DpuConfig& dpu, const ChannelOperands& operands, float value,
                           int32_t ew_operand, Steps* steps) {
  const float scaled = scale_float(dpu, run_stages(dpu, operands, value, ew_operand, steps));
  note(steps, "OUT_CVT.scaled", scaled);
  return float_output(dpu, scaled);
}

uint32_t pend_bits(const DpuConfig& dpu) {
  switch (element_bytes(dpu.out_element)) {
    case 1:
      return static_cast<uint8_t>(dpu.pend);
    case 2:
      return dpu.pend_word;
    default:
      // 16 bits extended to 32 (assumed; known programs write 0).
      return static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(dpu.pend_word)));
  }
}

void store_elements(
    const TaskPlan& task, uint32_t first_channel, uint32_t lanes, uint64_t first_pixel,
    size_t pixels,
    const std::function<uint32_t(const ChannelOperands&, const ElementPlace&)>& bits) {
  const DpuConfig& dpu = task.dpu;
  const uint32_t bytes = kAtomBytes / dpu.lanes;
  for (uint32_t lane = 0; lane < lanes && first_channel + lane < dpu.channels; ++lane) {
    const uint32_t channel = first_channel + lane;
    const bool is_real = channel < dpu.real_channels;
    ChannelOperands operands;
    if (is_real) operands = channel_operands(dpu, task.operands, channel);
    for (size_t run = 0; run < pixels; ++run) {
      const uint64_t pixel = first_pixel + run;
      const uint32_t value = is_real ? bits(operands, {channel, lane, pixel, run}) : pend_bits(dpu);
      int8_t* out = task.output_atom(channel / dpu.lanes, static_cast<uint32_t>(pixel / dpu.width),
                                     static_cast<uint32_t>(pixel % dpu.width)) +
                    size_t{channel % dpu.lanes} * bytes;
      for (uint32_t i = 0; i < bytes; ++i) out[i] = static_cast<int8_t>(value >> 8 * i & 0xff);
    }
  }
}

float float_input(const TaskPlan& task, uint32_t channel, uint32_t y, uint32_t x) {
  if (task.is_conv) return accumulate_float(task.cna, task.feature, task.weights, channel, y, x);
  const auto bits =
      static_cast<uint32_t>(task.operands.main.element(channel, uint64_t{y} * task.dpu.width + x));
  if (task.dpu.in == Element::kFp32) return float_of_bits(bits);
  return half_to_float(static_cast<uint16_t>(bits));
}

uint32_t run_element(const TaskPlan& task, const ChannelOperands& operands, uint32_t channel,
                     uint32_t y, uint32_t x, Steps* steps) {
  const DpuConfig& dpu = task.dpu;
  const int32_t ew = ew_operand_of(task, channel, uint64_t{y} * dpu.width + x);
  const char* source = task.is_conv ? "CORE.accumulator" : "DPU_RDMA.main operand";
  if (dpu.computes_in_float()) {
    const float value = float_input(task, channel, y, x);
    note(steps, source, value);
    return run_float_element(dpu, operands, value, ew, steps);
  }
  const int32_t value = integer_input(task, operands, channel, y, x, steps);
  note(steps, source, value);
  return run_integer_element(dpu, operands, value, ew, steps);
}

void run_elements(const TaskPlan& task, ThreadPool& pool) {
  const DpuConfig& dpu = task.dpu;
  // Channels of one surface share atoms but no bytes.
  pool.run(dpu.channels, [&](size_t index) {
    store_elements(task, static_cast<uint32_t>(index), 1, 0, size_t{dpu.height} * dpu.width,
                   [&](const ChannelOperands& operands, const ElementPlace& at) {
                     return run_element(task, operands, at.channel,
                                        static_cast<uint32_t>(at.pixel / dpu.width),
                                        static_cast<uint32_t>(at.pixel % dpu.width));
                   });
  });
}

}  // namespace rk3588::sim
