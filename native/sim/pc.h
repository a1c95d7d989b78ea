// PC, the program controller: fetches a command segment, writes registers, and tells what to start.
#pragma once

#include "sim/lut.h"
#include "sim/memory.h"
#include "sim/register_file.h"

namespace rk3588::sim {

// A 64-bit command: `value` goes to the register at `offset` of the block with this target.
struct Word {
  uint32_t target;
  uint32_t value;
  uint32_t offset;
};
inline Word decode(uint64_t word) {
  return {static_cast<uint32_t>(word >> 48), static_cast<uint32_t>(word >> 16),
          static_cast<uint32_t>(word & 0xffff)};
}

// The command with another value, of 32 bits.
inline uint64_t with_value(uint64_t word, uint64_t value) {
  return (word & ~(uint64_t{UINT32_MAX} << 16)) | value << 16;
}

// A word of zeros, which does nothing.
inline constexpr uint32_t kTargetFiller = 0;
// S_POINTER. Both ping-pong enables and "ping-pong by pointer": what every known program writes
// before each task. Without it later tasks of a chain repeat the first one's output (observed).
inline constexpr uint32_t kPointerRearm = 0x0e;
// Pointer and executer cleared: used after a LUT upload only.
inline constexpr uint32_t kPointerClear = 0x30;

// The end of a segment.
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

// Bits of the operation enable, by block.
inline constexpr std::array<uint32_t, kBlockCount> kBlockEnables = {0x01, 0x04, 0x08,
                                                                    0x10, 0x20, 0x40};
inline bool starts(uint32_t enable_mask, Block block) {
  return (enable_mask & kBlockEnables[static_cast<size_t>(block)]) != 0;
}
inline constexpr uint32_t kEnableCna = 0x01;
inline constexpr uint32_t kEnableCore = 0x04;
inline constexpr uint32_t kEnableDpu = 0x08;
inline constexpr uint32_t kEnableDpuRdma = 0x10;
inline constexpr uint32_t kEnablePpu = 0x20;
inline constexpr uint32_t kEnablePpuRdma = 0x40;
// The blocks that a task may start together.
inline constexpr uint32_t kConvMask = kEnableCna | kEnableCore | kEnableDpu;
inline constexpr uint32_t kConvRdmaMask = kConvMask | kEnableDpuRdma;
inline constexpr uint32_t kFlyingMask = kEnableDpu | kEnableDpuRdma;
inline constexpr uint32_t kPoolingMask = kEnablePpu | kEnablePpuRdma;
inline bool is_known_mask(uint32_t mask) {
  return mask == kConvMask || mask == kConvRdmaMask || mask == kFlyingMask || mask == kPoolingMask;
}

}  // namespace rk3588::sim
