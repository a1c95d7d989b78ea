// PC, the program controller: fetches a command segment, writes registers, and tells what to start.
#pragma once

#include "sim/lut.h"
#include "sim/memory.h"
#include "sim/register_file.h"

namespace rk3588::sim {

// What a segment asks for at its end.
struct SegmentEnd {
  uint32_t enable_mask = 0;
  uint64_t next_address = 0;  // 0: no link
  uint32_t next_words = 0;    // what the link's amount makes the PC fetch, tail included
};

// Executes `words` 64-bit commands at `address`: register writes and table entries up to the
// operation enable.
// Faults: every word that is no known command, an incomplete tail, a missing re-arm of the DPU's
// pointers.
SegmentEnd run_segment(const Memory& memory, RegisterFile& registers, LutTables& tables,
                       uint64_t address, uint32_t words, const Position& where);

// Bits of the operation enable.
inline constexpr uint32_t kEnableCna = 0x01;
inline constexpr uint32_t kEnableCore = 0x04;
inline constexpr uint32_t kEnableDpu = 0x08;
inline constexpr uint32_t kEnableDpuRdma = 0x10;
inline constexpr uint32_t kEnablePpu = 0x20;
inline constexpr uint32_t kEnablePpuRdma = 0x40;

}  // namespace rk3588::sim
