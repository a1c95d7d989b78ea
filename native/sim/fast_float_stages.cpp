#include <algorithm>
#include <cmath>

#include "sim/dpu_element.h"
#include "sim/fast_float.h"

namespace rk3588::sim {
namespace {

// Powers of two down to this are normal numbers of fp32.
constexpr uint32_t kMostMinusExp = 126;

float number(int32_t bits) { return float_of_bits(static_cast<uint32_t>(bits)); }
float half_number(int16_t bits) { return half_to_float(static_cast<uint16_t>(bits)); }

HalfRelu half_relu(const Relu& relu) {
  HalfRelu found;
  found.is_on = relu.is_on;
  if (relu.is_limited) found.limit = number(relu.limit);
  return found;
}

HalfXStage x_stage(const XStage& stage) {
  return {stage.alu != Operand::kOff, stage.mul != Operand::kOff, stage.mul_prelu,
          half_relu(stage.relu)};
}

bool reads_half(const OperandCube& cube) { return cube && cube.element_bytes == 2; }

bool can_vectorise(const TaskPlan& task) {
  const DpuConfig& dpu = task.dpu;
  const bool has_stages = !dpu.is_literal && !dpu.lut.is_on;
  if (dpu.out_element != Element::kFp16 || dpu.lanes != kHalfLanes || !has_stages) return false;
  if (dpu.out.minus_exp > kMostMinusExp) return false;
  if (!task.is_conv && !reads_half(task.operands.main)) return false;
  return !reads_pixels(task) || (dpu.ew.operand_bytes == 2 && reads_half(task.operands.ew));
}

}  // namespace

bool reads_pixels(const TaskPlan& task) {
  const EwStage& ew = task.dpu.ew;
  return ew.operation != EwOperation::kOff && ew.source == Operand::kMemory &&
         task.operands.ew_channels.empty();
}

HalfWriter::HalfWriter(const TaskPlan& task, const HalfKernels& kernels)
    : task_(task), kernels_(kernels), is_vectorised_(can_vectorise(task)) {
  const DpuConfig& dpu = task.dpu;
  is_linear_ = dpu.writes_as_computed() && dpu.line_pitch == uint64_t{dpu.width} * kAtomBytes;
  if (!is_vectorised_) return;
  stages_.bs = x_stage(dpu.bs);
  stages_.bn = x_stage(dpu.bn);
  stages_.ew = dpu.ew.operation;
  stages_.ew_per_pixel = reads_pixels(task);
  stages_.ew_prelu = dpu.ew.mul_prelu;
  stages_.ew_relu = half_relu(dpu.ew.relu);
  stages_.out_scale = static_cast<float>(dpu.out.scale);
  stages_.out_power = std::ldexp(1.0f, -static_cast<int>(dpu.out.minus_exp));
  const bool has_half_operand = dpu.ew.source == Operand::kMemory && dpu.ew.operand_bytes == 2;
  surfaces_.resize(dpu.surfaces());
  for (uint32_t channel = 0; channel < dpu.channels; ++channel) {
    HalfSurface& surface = surfaces_[channel / kHalfLanes];
    const uint32_t lane = channel % kHalfLanes;
    const bool is_real = channel < dpu.real_channels;
    surface.real[lane] = is_real ? UINT16_MAX : 0;
    surface.pend[lane] = dpu.pend_word;
    ChannelOperands operands;
    if (is_real) operands = channel_operands(dpu, task.operands, channel);
    surface.bs_alu[lane] = number(operands.bs_alu) * (dpu.bs.alu_minus ? -1.0f : 1.0f);
    surface.bs_mul[lane] = half_number(operands.bs_mul);
    surface.bn_mul[lane] = half_number(operands.bn_mul);
    surface.bn_alu[lane] = number(operands.bn_alu) * (dpu.bn.alu_minus ? -1.0f : 1.0f);
    const int32_t ew = is_real && !stages_.ew_per_pixel ? ew_operand_of(task, channel, 0) : 0;
    surface.ew[lane] = has_half_operand ? half_number(static_cast<int16_t>(ew)) : number(ew);
  }
}

void HalfWriter::write(uint32_t surface, size_t pixel, const float* sums, size_t stride,
                       size_t pixels) const {
  if (!is_vectorised_) {
    write_elements(surface, pixel, sums, stride, pixels);
    return;
  }
  const DpuConfig& dpu = task_.dpu;
  const Operands& operands = task_.operands;
  // Surfaces without a channel read no operand.
  static constexpr float kNoSums[kHalfLanes] = {};
  static constexpr HalfStages kNoStages;
  const bool is_empty = surface * kHalfLanes >= dpu.real_channels;
  if (is_empty) {
    sums = kNoSums;
    stride = 0;
  }
  const int8_t* main = task_.is_conv || is_empty ? nullptr : operands.main.surface(surface);
  const int8_t* ew = stages_.ew_per_pixel && !is_empty ? operands.ew.surface(surface) : nullptr;
  while (pixels > 0) {
    const auto y = static_cast<uint32_t>(pixel / dpu.width);
    const auto x = static_cast<uint32_t>(pixel % dpu.width);
    size_t run = 1;
    if (is_linear_) {
      run = pixels;
    } else if (dpu.writes_as_computed()) {
      run = std::min<size_t>(pixels, dpu.width - x);
    }
    kernels_.stages(is_empty ? kNoStages : stages_, surfaces_[surface], sums, stride,
                    main == nullptr ? nullptr : main + pixel * kAtomBytes,
                    ew == nullptr ? nullptr : ew + pixel * kAtomBytes,
                    task_.output_atom(surface, y, x), run);
    pixel += run;
    pixels -= run;
    if (sums != nullptr) sums += run * stride;
  }
}

void HalfWriter::write_elements(uint32_t surface, size_t pixel, const float* sums, size_t stride,
                                size_t pixels) const {
  const DpuConfig& dpu = task_.dpu;
  const auto bits = [&](const ChannelOperands& operands, const ElementPlace& at) {
    const float value = sums != nullptr ? sums[at.run * stride + at.lane]
                                        : float_input(task_, at.channel,
                                                      static_cast<uint32_t>(at.pixel / dpu.width),
                                                      static_cast<uint32_t>(at.pixel % dpu.width));
    return run_float_element(dpu, operands, value, ew_operand_of(task_, at.channel, at.pixel));
  };
  store_elements(task_, surface * kHalfLanes, kHalfLanes, pixel, pixels, bits);
}

}  // namespace rk3588::sim
