// "Why is this byte 17?": the values of every stage for one output element.
#pragma once

#include "sim/executor.h"
#include "sim/ppu.h"

namespace rk3588::sim {

// Appends to `writes` if the task writes the probed element. Called before the task runs.
void explain_task(const TaskPlan& task, uint32_t enable_mask, const RegisterFile& registers,
                  const Probe& probe, const Position& where, std::vector<ElementWrite>* writes);
void explain_pooling(const PoolingConfig& config, const PoolingPlan& plan, uint32_t enable_mask,
                     const RegisterFile& registers, const Probe& probe, const Position& where,
                     std::vector<ElementWrite>* writes);

}  // namespace rk3588::sim
