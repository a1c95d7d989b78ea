// Turns the registers of one started task into a checked TaskPlan, and says how an element of its
// output gets its value.
#pragma once

#include <optional>

#include "sim/cbuf.h"
#include "sim/pc.h"
#include "sim/ppu.h"
#include "sim/task.h"

namespace rk3588::sim {

// True if the enabled blocks are PPU and PPU_RDMA. Faults: a mask that starts no known set.
bool is_pooling(uint32_t enable_mask, const Position& where);

// Decodes and checks everything before a byte is written: registers of all blocks against each
// other, CBUF, every address, and that the output does not overwrite what the task still reads.
// Marks the output as written.
TaskPlan plan_task(uint32_t enable_mask, const RegisterFile& registers, const LutTables& tables,
                   Memory& memory, Cbuf& cbuf, const Chip& chip, const Position& where);

// The values of every stage for the probed element, if the task writes it (explain.cpp). Called
// before the task runs.
std::optional<ElementWrite> explain_task(const TaskPlan& task, uint32_t enable_mask,
                                         const RegisterFile& registers, const Probe& probe,
                                         const Position& where);
std::optional<ElementWrite> explain_task(const PoolingPlan& plan, uint32_t enable_mask,
                                         const RegisterFile& registers, const Probe& probe,
                                         const Position& where);

}  // namespace rk3588::sim
