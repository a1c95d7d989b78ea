#include "sim/dpu_element.h"

#include <algorithm>
#include <cmath>

#include "sim/rounding.h"
#include "sim/thread_pool.h"

namespace rk3588::sim {
namespace {

float limited(float value, const Relu& relu) {
  if (!relu.is_on) return value;
  value = std::max(value, 0.0f);
  return relu.is_limited ? std::min(value, float_of_bits(static_cast<uint32_t>(relu.limit)))
                         : value;
}

float summand_float(const XStage& stage, int32_t alu) {
  const float operand = float_of_bits(static_cast<uint32_t>(alu));
  return stage.alu_minus ? -operand : operand;
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

}  // namespace

float look_up(const LutConfig& lut, float value) {
  return static_cast<float>(look_up(lut, to_index(value)));
}

float scale_float(const DpuConfig& dpu, float value) {
  const OutStage& out = dpu.out;
  const float scaled = dpu.lut.is_on ? static_cast<float>(scale_output(out, to_index(value)))
                                     : value * static_cast<float>(out.scale);
  return std::ldexp(scaled, -static_cast<int>(out.minus_exp));
}

float run_x_stage(const XStage& stage, float value, int32_t alu, int16_t mul) {
  const float sum = stage.alu == Operand::kOff ? 0.0f : summand_float(stage, alu);
  float x = value;
  if (!stage.multiplies_first && stage.alu != Operand::kOff) x += sum;
  if (stage.mul != Operand::kOff && !(stage.mul_prelu && x >= 0)) {
    x *= half_to_float(static_cast<uint16_t>(mul));
  }
  if (stage.multiplies_first && stage.alu != Operand::kOff) x += sum;
  return limited(x, stage.relu);
}

float run_ew_stage(const EwStage& stage, float value, int32_t operand) {
  const bool is_half = stage.source == Operand::kMemory && stage.operand_bytes == 2;
  const float e = is_half ? half_to_float(static_cast<uint16_t>(operand))
                          : float_of_bits(static_cast<uint32_t>(operand));
  if (!stage.passes(value)) value = combined(stage.operation, value, e);
  return limited(value, stage.relu);
}

int32_t ew_operand_of(const TaskPlan& task, uint32_t channel, uint64_t pixel) {
  const EwStage& ew = task.dpu.ew;
  if (ew.source != Operand::kMemory) return ew.values[channel % ew.values.size()];
  const Operands& operands = task.operands;
  if (!operands.ew_channels.empty()) return operands.ew_channels[channel];
  return operands.ew ? operands.ew.element(channel, pixel) : 0;
}

// All stages before OUT_CVT.
template <typename Number>
static Number run_stages(const DpuConfig& dpu, const ChannelOperands& operands, Number x,
                         int32_t ew_operand) {
  x = run_x_stage(dpu.bs, x, operands.bs_alu, operands.bs_mul);
  x = run_x_stage(dpu.bn, x, operands.bn_alu, operands.bn_mul);
  if (dpu.lut.is_on) x = look_up(dpu.lut, x);
  x = run_ew_stage(dpu.ew, x, ew_operand);
  return x;
}

uint32_t run_integer_element(const DpuConfig& dpu, const ChannelOperands& operands, int32_t value,
                             int32_t ew_operand) {
  const int32_t x = run_stages(dpu, operands, value, ew_operand);
  const int64_t result = scale_output(dpu.out, x);
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
                           int32_t ew_operand) {
  const float x = run_stages(dpu, operands, value, ew_operand);
  return float_output(dpu, scale_float(dpu, x));
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

int32_t integer_input(const TaskPlan& task, const ChannelOperands& operands, uint32_t channel,
                      uint32_t y, uint32_t x) {
  if (!task.is_conv) return task.operands.main.element(channel, uint64_t{y} * task.dpu.width + x);
  const Accumulated sum = accumulate(task.cna, task.feature, task.weights, channel, y, x);
  return finish_accumulator(task.core, sum, operands.ow);
}

float float_input(const TaskPlan& task, uint32_t channel, uint32_t y, uint32_t x) {
  if (task.is_conv) return accumulate_float(task.cna, task.feature, task.weights, channel, y, x);
  const auto bits =
      static_cast<uint32_t>(task.operands.main.element(channel, uint64_t{y} * task.dpu.width + x));
  if (task.dpu.in == Element::kFp32) return float_of_bits(bits);
  return half_to_float(static_cast<uint16_t>(bits));
}

uint32_t run_element(const TaskPlan& task, const ChannelOperands& operands, uint32_t channel,
                     uint32_t y, uint32_t x) {
  const DpuConfig& dpu = task.dpu;
  const int32_t ew = ew_operand_of(task, channel, uint64_t{y} * dpu.width + x);
  if (dpu.computes_in_float()) {
    return run_float_element(dpu, operands, float_input(task, channel, y, x), ew);
  }
  return run_integer_element(dpu, operands, integer_input(task, operands, channel, y, x), ew);
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
