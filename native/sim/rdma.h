// DPU_RDMA: the operands that the DPU reads from memory.
#pragma once

#include <memory>
#include <vector>

#include "sim/dpu.h"

namespace rk3588::sim {

// Per channel: summands (int32) or multipliers (int16) alone, or blocks of 8 channels of all three,
// or of summands and multipliers.
enum class OperandData { kNone, kSummands, kMultipliers, kBlocks, kPairBlocks };
// The operands that BS or BN gets.
struct ChannelRead {
  OperandData data = OperandData::kNone;
  uint64_t address = 0;

  bool has_blocks() const {
    return data == OperandData::kBlocks || data == OperandData::kPairBlocks;
  }
};

enum class EwRead { kOff, kPerChannel, kPerPixel };

// How the pixels of an operand's surface lie in memory and how they become the task's pixels.
struct OperandShape {
  uint32_t height = 0;  // in memory
  uint32_t width = 0;
  uint64_t line_pitch = 0;
  int64_t surface_pitch = 0;  // notches may lead back
  uint32_t repeat_h = 1;      // unpooling: every pixel becomes repeat_h x repeat_w
  uint32_t repeat_w = 1;
  bool rows_are_surfaces = false;  // repeated rows leave as the surfaces of a group (SIZE_E)
  uint32_t element_bytes = 1;
  // Pixels follow each other and the task takes them as they are.
  bool is_contiguous() const {
    return repeat_h == 1 && repeat_w == 1 && line_pitch == uint64_t{width} * kAtomBytes &&
           surface_pitch >= 0;
  }
};

struct RdmaConfig {
  ChannelRead bs;
  ChannelRead bn;
  // Numbers of a stage that are the same for all channels, of a chip that reads them from memory.
  AddressPattern scalars;
  bool reads_main = false;  // MRDMA feeds the DPU (flying mode)
  // COMB_USE: MRDMA reads even surfaces of one operand, ERDMA odd ones: of EW's in a convolution
  // (5), of the main one in flying mode (3).
  bool combined = false;
  EwRead ew = EwRead::kOff;
  uint64_t src_address = 0;
  uint64_t ew_address = 0;
  OperandShape src;
  OperandShape ew_shape;
};

// Reads and checks the registers against the DPU's sizes; throws Fault.
RdmaConfig decode_rdma(const BlockView& view, const DpuConfig& dpu, bool is_conv);

// Per-channel operands of BS or BN; 0 from the DPU's real channels on.
struct XOperands {
  std::vector<int32_t> alu;
  std::vector<int16_t> ow;
  std::vector<int16_t> mul;
};

// A feature map operand. Pixels of a surface are contiguous.
struct OperandCube {
  const int8_t* even = nullptr;
  const int8_t* odd = nullptr;  // only with COMB_USE
  uint64_t pitch = 0;
  uint32_t element_bytes = 1;
  // Holds the pixels where memory has them in another order.
  std::shared_ptr<std::vector<int8_t>> gathered;
  // Where pixels were gathered only because of gaps between rows, surface s lies at
  // address + s * address_pitch.
  uint64_t address = 0;
  int64_t address_pitch = 0;
  uint32_t lanes() const { return kAtomBytes / element_bytes; }
  // The element of a channel as a number, or as bits if it is floating point.
  int32_t element(uint32_t channel, uint64_t pixel) const;
  const int8_t* surface(uint32_t s) const {
    return odd == nullptr ? even + s * pitch : (s % 2 != 0 ? odd : even) + s / 2 * pitch;
  }
  explicit operator bool() const { return even != nullptr; }
};

// A little-endian number of 1, 2 or 4 bytes, extended by its sign.
int32_t load_element(const uint8_t* bytes, uint32_t count);

struct Operands {
  XOperands bs;
  XOperands bn;
  OperandCube main;                   // flying mode
  OperandCube ew;                     // per pixel
  std::vector<int32_t> ew_channels;   // per channel
  std::vector<AddressPattern> reads;  // everything read, one pattern per surface
  ReaderBytes bytes;
};

// The surfaces of an operand, contiguous: pointers into memory where that is so there, else a copy
// (rdma_gather.cpp). `odd` is nullptr unless COMB_USE splits the surfaces. Appends to `reads`.
OperandCube read_operand(const Memory& memory, const OperandShape& shape, uint64_t even,
                         const uint64_t* odd, uint64_t surfaces, const Position& where,
                         bool is_main, std::vector<AddressPattern>* reads);
// SRC_DMA_CFG and the notches (rdma_gather.cpp).
OperandShape decode_main_shape(const BlockView& view, const DpuConfig& dpu);
OperandShape decode_ew_shape(const BlockView& view, const OperandShape& main);

// Fetches what the stages need. Throws Fault for an operand that a stage takes from memory but
// nothing fetches, and for addresses that are not mapped.
Operands fetch_operands(const Memory& memory, const RdmaConfig& rdma, const DpuConfig& dpu,
                        const Position& where);

}  // namespace rk3588::sim
