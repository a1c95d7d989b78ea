// DPU: the stages BS, BN, EW and OUT_CVT behind the accumulator, and where the result goes.
#pragma once

#include <array>

#include "sim/element.h"
#include "sim/lut.h"
#include "sim/memory.h"
#include "sim/register_file.h"
#include "sim/rounding.h"

namespace rk3588::sim {

enum class Operand { kOff, kRegister, kMemory };

// The end of a stage: negative values become 0, large ones (RELUX) the limit.
struct Relu {
  bool is_on = false;
  bool is_limited = false;
  int32_t limit = 0;  // in floating point stages the bits of fp32
};

// The end of BS, BN and EW: products are shifted by their sign, then clamped.
struct StageEnd {
  bool mul_prelu = false;       // only negative values are multiplied and shifted
  uint32_t shift = 0;           // for products (BN: and sums) >= 0
  uint32_t shift_negative = 0;  // for those < 0
  Ties ties = Ties::kEven;
  Relu relu;
};

// BS and BN have the same parts: ALU, MUL with a shift, ReLU or RELUX. BS adds, then multiplies; BN
// multiplies, then adds, and shifts the sum.
struct XStage : StageEnd {
  bool multiplies_first = false;
  Operand alu = Operand::kOff;
  bool alu_minus = false;
  int32_t alu_operand = 0;
  Operand mul = Operand::kOff;
  int16_t mul_operand = 0;
};

enum class EwOperation { kOff, kAdd, kMinus, kMax, kMin, kMul };

struct EwStage : StageEnd {
  EwOperation operation = EwOperation::kOff;
  Operand source = Operand::kOff;
  uint32_t operand_bytes = 1;  // of one channel in memory
  bool convert = false;        // e' = (e + offset) * scale >> convert_shift
  bool scales_first = false;   // e' = e * scale + offset >> convert_shift, as no known chip does
  Ties convert_ties = Ties::kEven;
  int32_t offset = 0;
  int16_t scale = 1;
  uint32_t convert_shift = 0;
  std::array<int32_t, 8> values{};  // register operands, by channel % 8

  // Whether a value leaves as it came, but for ReLU.
  template <typename Number>
  bool passes(Number value) const {
    return operation == EwOperation::kOff ||
           (operation == EwOperation::kMul && mul_prelu && value >= 0);
  }
};

struct OutStage {
  int16_t scale = 1;
  uint32_t shift = 0;
  Ties ties = Ties::kEven;
  int32_t offset = 0;
  uint32_t minus_exp = 0;  // floating point results are divided by 2^minus_exp
  // No known chip does these.
  bool adds_first = false;       // the offset, before the scale
  bool saturates_first = false;  // 8-bit results, before the offset
  bool wraps = false;            // 8-bit results that do not fit lose their upper bits
};

struct DpuConfig {
  Element in = Element::kInt8;           // what the stages take
  Element declared_in = Element::kInt8;  // IN_PRECISION
  Element proc = Element::kInt8;
  Element out_element = Element::kInt8;
  uint32_t lanes = 16;  // channels of an output surface
  bool is_flying = false;
  bool is_depthwise = false;
  bool combined = false;  // COMB_USE
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t channels = 0;       // written, whole groups
  uint32_t real_channels = 0;  // from here on `pend` is written
  int8_t pend = 0;
  uint16_t pend_word = 0;  // for elements of 16 bits
  Operand ow = Operand::kOff;
  int16_t ow_operand = 0;
  XStage bs;
  XStage bn;
  LutConfig lut;  // before the operation of EW
  EwStage ew;
  OutStage out;
  // The writer takes the atoms in the order of group, row, pixel, surface of the group, and lays
  // them out by sizes of its own, which are those of the cube in nearly every program:
  // group * group_pitch + row * line_pitch + pixel * kAtomBytes + surface * surface_pitch from dst
  // on.
  uint32_t write_height = 0;
  uint32_t write_width = 0;
  uint64_t dst = 0;
  uint64_t surface_pitch = 0;
  uint64_t group_pitch = 0;
  uint64_t line_pitch = 0;
  uint32_t surfaces_per_group = 1;
  bool is_literal = false;  // of a chip that only the literal stages know

  uint32_t surfaces() const { return channels / lanes; }
  bool computes_in_float() const { return is_float(proc); }
  // True if the vectorised stages can do all of it.
  bool is_int8_without_table() const {
    return proc == Element::kInt8 && in == Element::kInt8 && out_element == Element::kInt8 &&
           !lut.is_on;
  }
  bool writes_as_computed() const { return write_height == height && write_width == width; }
  uint64_t write_pixels() const {
    return uint64_t{surfaces()} / surfaces_per_group * height * width;
  }
  // The last one may end early.
  uint64_t write_groups() const {
    return ceil_div(write_pixels(), uint64_t{write_height} * write_width);
  }
  // Offset from dst of the atom that is computed as pixel (y, x) of a surface.
  uint64_t atom_offset(uint32_t surface, uint32_t y, uint32_t x) const {
    uint64_t group = surface / surfaces_per_group;
    uint64_t row = y;
    uint64_t pixel = x;
    if (!writes_as_computed()) {
      pixel += (group * height + y) * width;
      row = pixel / write_width;
      group = row / write_height;
      row %= write_height;
      pixel %= write_width;
    }
    return group * group_pitch + row * line_pitch + pixel * kAtomBytes +
           surface % surfaces_per_group * surface_pitch;
  }
};

// Reads and checks the registers; throws Fault. `is_conv`: CNA and CORE run in the same task.
DpuConfig decode_dpu(const BlockView& view, bool is_conv, const Chip& chip);
// The parts of it that dpu_stages.cpp decodes.
XStage decode_bs(const BlockView& view, bool in_float);
XStage decode_bn(const BlockView& view, bool in_float);
EwStage decode_ew(const BlockView& view, bool in_float);
OutStage decode_out(const BlockView& view, const DpuConfig& config);

}  // namespace rk3588::sim
