// One output element, as the documentation reads: what comes out of the DPU's stages, as bits, and
// where it goes.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/task.h"

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

// The operand of EW for an element: from memory, per channel or per pixel, or from its registers.
int32_t ew_operand_of(const TaskPlan& task, uint32_t channel, uint64_t pixel);
// The converted one of an integer task.
int32_t convert_ew_operand(const EwStage& stage, int32_t operand);

// The numbers on an element's way, each by the name of what gives it.
using Steps = std::vector<std::pair<std::string, double>>;

// All stages of an integer task; the result has the bits of the output's type. All that follow add
// to `steps`, if it is given, what each stage gave.
uint32_t run_integer_element(const DpuConfig& dpu, const ChannelOperands& operands, int32_t value,
                             int32_t ew_operand, Steps* steps = nullptr);
// The same for a floating point task.
uint32_t run_float_element(const DpuConfig& dpu, const ChannelOperands& operands, float value,
                           int32_t ew_operand, Steps* steps = nullptr);
// All stages of the element (channel, y, x), from the sum or the main operand on.
uint32_t run_element(const TaskPlan& task, const ChannelOperands& operands, uint32_t channel,
                     uint32_t y, uint32_t x, Steps* steps = nullptr);
// The value that goes into the stages of a floating point task.
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
