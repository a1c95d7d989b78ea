// What a task moves and computes, and what that costs by the known cost formulas.
#pragma once

#include "sim/ppu.h"
#include "sim/task.h"

namespace rk3588::sim {

TaskCounters count_task(const TaskPlan& task, uint32_t enable_mask, const Chip& chip,
                        const Position& where);
TaskCounters count_pooling(const PoolingConfig& config, uint32_t enable_mask, const Chip& chip,
                           const Position& where);
}  // namespace rk3588::sim
