// Turns the registers of one started task into a checked TaskPlan.
#pragma once

#include "sim/cbuf.h"
#include "sim/pc.h"
#include "sim/task.h"

namespace rk3588::sim {

// Decodes and checks everything before a byte is written: registers of all blocks against each
// other, CBUF, every address, and that the output does not overwrite what the task still reads.
// Marks the output as written.
TaskPlan plan_task(uint32_t enable_mask, const RegisterFile& registers, Memory& memory, Cbuf& cbuf,
                   const Position& where);

}  // namespace rk3588::sim
