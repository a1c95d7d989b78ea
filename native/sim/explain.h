// "Why is this byte 17?": the values of every stage for one output element.
#pragma once

#include <optional>

#include "sim/executor.h"
#include "sim/ppu.h"

namespace rk3588::sim {

// If the task writes the probed element. Called before the task runs.
std::optional<ElementWrite> explain_task(const TaskPlan& task, uint32_t enable_mask,
                                         const RegisterFile& registers, const Probe& probe,
                                         const Position& where);
std::optional<ElementWrite> explain_pooling(const PoolingConfig& config, const PoolingPlan& plan,
                                            uint32_t enable_mask, const RegisterFile& registers,
                                            const Probe& probe, const Position& where);
}  // namespace rk3588::sim
