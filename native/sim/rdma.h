// DPU_RDMA: the operands that the DPU reads from memory.
#pragma once

#include <vector>

#include "sim/dpu.h"

namespace rk3588::sim {

enum class OperandData { kNone, kDense, kBlocks };
enum class EwRead { kOff, kPerChannel, kPerPixel };

struct RdmaConfig {
  OperandData bs_data = OperandData::kNone;
  uint64_t bs_address = 0;
  bool bn_multipliers = false;  // NRDMA reads one int16 per channel, dense
  uint64_t bn_address = 0;
  bool reads_main = false;  // MRDMA feeds the DPU (flying mode)
  bool combined = false;  // COMB_USE 5: even surfaces of the EW operand by MRDMA, odd ones by ERDMA
  EwRead ew = EwRead::kOff;
  uint64_t src_address = 0;
  uint64_t ew_address = 0;
  uint64_t src_pitch = 0;
  uint64_t ew_pitch = 0;
};

// Reads and checks the registers against the DPU's sizes; throws Fault.
RdmaConfig decode_rdma(const BlockView& view, const DpuConfig& dpu, bool is_conv);

// Per-channel operands of BS; 0 from the DPU's real channels on.
struct BsOperands {
  std::vector<int32_t> alu;
  std::vector<int16_t> ow;
  std::vector<int16_t> mul;
};

// A feature map operand. Pixels of a surface are contiguous.
struct OperandCube {
  const int8_t* even = nullptr;
  const int8_t* odd = nullptr;  // only with COMB_USE
  uint64_t pitch = 0;
  const int8_t* surface(uint32_t s) const {
    return odd == nullptr ? even + s * pitch : (s % 2 != 0 ? odd : even) + s / 2 * pitch;
  }
  explicit operator bool() const { return even != nullptr; }
};

struct Operands {
  BsOperands bs;
  std::vector<int16_t> bn_mul;        // 0 from the real channels on
  OperandCube main;                   // flying mode
  OperandCube ew;                     // per pixel
  std::vector<int8_t> ew_channels;    // per channel
  std::vector<AddressPattern> reads;  // everything read, one pattern per surface
};

// Fetches what the stages need. Throws Fault for an operand that a stage takes from memory but
// nothing fetches, and for addresses that are not mapped.
Operands fetch_operands(const Memory& memory, const RdmaConfig& rdma, const DpuConfig& dpu,
                        const Position& where);

}  // namespace rk3588::sim
