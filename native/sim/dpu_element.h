// One output element of a task whose types or stages go beyond int8: what comes out, as bits, and
// where it goes.
#pragma once

#include <functional>

#include "sim/dpu_stages.h"
#include "sim/task.h"

namespace rk3588::sim {

// BS and BN in fp32: ALU operands and limits are fp32 bits, multipliers fp16 bits. Products and
// sums are rounded one after the other (assumed).
float run_x_stage(const XStage& stage, float value, int32_t alu, int16_t mul);
// `operand` is what ERDMA read: fp16 or fp32 bits by the stage's operand size.
float run_ew_stage(const EwStage& stage, float value, int32_t operand);

// Looks a value up in the tables: its nearest integer (ties to even) indexes them.
float look_up(const LutConfig& lut, float value);
// OUT_CVT of a floating point task: table results are integers and scaled, shifted and summed as
// such; MINUS_EXP makes numbers of them.
float scale_float(const DpuConfig& dpu, float value);

// The operand of EW for an element: from memory, per channel or per pixel, or from its registers.
int32_t ew_operand_of(const TaskPlan& task, uint32_t channel, uint64_t pixel);

// All stages of an integer task; the result has the bits of the output's type.
uint32_t run_integer_element(const DpuConfig& dpu, const ChannelOperands& operands, int32_t value,
                             int32_t ew_operand);
// The same for a floating point task.
uint32_t run_float_element(const DpuConfig& dpu, const ChannelOperands& operands, float value,
                           int32_t ew_operand);
// All stages of the element (channel, y, x), from the sum or the main operand on.
uint32_t run_element(const TaskPlan& task, const ChannelOperands& operands, uint32_t channel,
                     uint32_t y, uint32_t x);
// The value that goes into the stages.
int32_t integer_input(const TaskPlan& task, const ChannelOperands& operands, uint32_t channel,
                      uint32_t y, uint32_t x);
float float_input(const TaskPlan& task, uint32_t channel, uint32_t y, uint32_t x);
uint32_t pend_bits(const DpuConfig& dpu);

// An element of a task: `pixel` counts over the rows of its surface, `run` over those asked for.
struct ElementPlace {
  uint32_t channel;
  uint32_t lane;
  uint64_t pixel;
  size_t run;
};
// Stores `lanes` channels of neighbouring pixels, each with the bits that `bits` gives; lanes that
// no channel has get OFFSET_PEND.
void store_elements(
    const TaskPlan& task, uint32_t first_channel, uint32_t lanes, uint64_t first_pixel,
    size_t pixels,
    const std::function<uint32_t(const ChannelOperands&, const ElementPlace&)>& bits);

// The literal path: the whole task element by element, integers in 64 bits; channels are shared out
// over threads.
void run_elements(const TaskPlan& task, class ThreadPool& pool);

}  // namespace rk3588::sim
