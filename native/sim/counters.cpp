#include "sim/counters.h"

#include <algorithm>

#include "sim/cbuf.h"
#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

void count_conv(const TaskPlan& task, TaskCounters* c) {
  const CnaConfig& cna = task.cna;
  const Chip& chip = *cna.chip;
  const uint64_t pixels = uint64_t{cna.out_height} * cna.out_width;
  const uint64_t taps = uint64_t{cna.weights.kh} * cna.weights.kw;
  const uint64_t element = element_bytes(cna.element);
  const uint64_t groups = ceil_div(pixels, chip.step_pixels) * chip.step_pixels;
  if (cna.is_depthwise) {
    c->macs = pixels * taps * cna.feature.channels;
    c->npu_cycles = groups * taps * ceil_div(cna.feature.channels, chip.depthwise_channels);
  } else {
    c->macs = pixels * taps * cna.feature.channels * cna.weights.kernels;
    const uint64_t steps = std::max(taps * ceil_div(cna.feature.channels, chip.input_lanes),
                                    chip.min_dense_steps / element);
    c->npu_cycles = groups * ceil_div(cna.weights.kernels, cna.group()) * steps;
  }
  c->feature_bytes = cna.cbuf.data_reuse ? 0 : task.feature_bytes;
  c->weight_bytes = cna.cbuf.weight_reuse ? 0 : cna.weights.bytes;
  c->data_banks = cna.cbuf.data_banks;
  c->weight_banks = cna.cbuf.weight_banks;
  c->cbuf_data_bytes = task.cbuf_data_bytes;
  c->cbuf_weight_bytes =
      std::min<uint64_t>(cna.weights.bytes, uint64_t{cna.cbuf.weight_banks} * chip.cbuf_bank_bytes);
}

TaskCounters start(uint32_t enable_mask, const Position& where) {
  TaskCounters c;
  c.task = where.task;
  c.layer = where.layer;
  c.enable_mask = enable_mask;
  return c;
}

void finish(const Chip& chip, TaskCounters* c) {
  const uint64_t moved = c->feature_bytes + c->weight_bytes + c->operands.all() + c->written_bytes;
  c->ddr_cycles = ceil_div(moved * 10, chip.bus_decibytes_per_cycle);
}

}  // namespace

TaskCounters count_task(const TaskPlan& task, uint32_t enable_mask, const Chip& chip,
                        const Position& where) {
  TaskCounters c = start(enable_mask, where);
  if (task.is_conv) count_conv(task, &c);
  c.operands = task.operands.bytes;
  const DpuConfig& dpu = task.dpu;
  c.written_bytes = uint64_t{dpu.height} * dpu.width * dpu.surfaces() * kAtomBytes;
  finish(chip, &c);
  return c;
}

TaskCounters count_pooling(const PoolingConfig& config, uint32_t enable_mask, const Chip& chip,
                           const Position& where) {
  TaskCounters c = start(enable_mask, where);
  c.feature_bytes = uint64_t{config.in_height} * config.in_width * config.surfaces * kAtomBytes;
  c.written_bytes = uint64_t{config.out_height} * config.out_width * config.surfaces * kAtomBytes;
  finish(chip, &c);
  return c;
}

}  // namespace rk3588::sim
