#include "sim/dpu_element.h"

namespace rk3588::sim {
namespace {

int8_t element(const TaskPlan& task, const ChannelOperands& channel_ops, uint32_t channel,
               uint32_t y, uint32_t x) {
  const uint64_t pixel = uint64_t{y} * task.dpu.width + x;
  int32_t value;
  if (task.is_conv) {
    const Accumulated sum = accumulate(task.cna, task.feature, task.weights, channel, y, x);
    value = finish_accumulator(task.core, sum, channel_ops.ow);
  } else {
    const int8_t* surface = task.operands.main.surface(channel / kAtomBytes);
    value = surface[pixel * kAtomBytes + channel % kAtomBytes];
  }
  const auto ew = static_cast<int8_t>(
      task.dpu.ew.source == Operand::kMemory ? ew_operand_of(task, channel, pixel) : 0);
  return run_stages(task.dpu, channel_ops, channel, value, ew);
}

}  // namespace

void run_plain(const TaskPlan& task) {
  const DpuConfig& dpu = task.dpu;
  if (!dpu.is_plain_int8()) {
    run_elements(task, nullptr);
    return;
  }
  for (uint32_t channel = 0; channel < dpu.channels; ++channel) {
    const bool is_real = channel < dpu.real_channels;
    ChannelOperands channel_ops;
    if (is_real) channel_ops = channel_operands(dpu, task.operands, channel);
    for (uint32_t y = 0; y < dpu.height; ++y) {
      for (uint32_t x = 0; x < dpu.width; ++x) {
        task.output_atom(channel / kAtomBytes, y, x)[channel % kAtomBytes] =
            is_real ? element(task, channel_ops, channel, y, x) : dpu.pend;
      }
    }
  }
}

}  // namespace rk3588::sim
