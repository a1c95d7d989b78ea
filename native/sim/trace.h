// "Why is this byte 17?": the values of every stage for the output element at an address.
#pragma once

#include "sim/executor.h"
#include "sim/ppu.h"

namespace rk3588::sim {

// Appends to `traces` if the task writes `address`. Called before the task runs.
void trace_task(const TaskPlan& task, uint32_t enable_mask, const RegisterFile& registers,
                uint64_t address, const Position& where, std::vector<ElementTrace>* traces);
void trace_pooling(const PoolingConfig& config, const PoolingPlan& plan, uint32_t enable_mask,
                   const RegisterFile& registers, uint64_t address, const Position& where,
                   std::vector<ElementTrace>* traces);

}  // namespace rk3588::sim
