// Register groups: two per block, ping-pong between tasks; a register that a task does not write
// keeps the value of the task two before it.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>

#include "chip/chip_gen.h"
#include "chip/registers_gen.h"
#include "sim/fault.h"
#include "span.h"

namespace rk3588::sim {

// Blocks with register groups, in the order of their windows 0x1000, 0x3000, ...
enum class Block : uint8_t { kCna, kCore, kDpu, kDpuRdma, kPpu, kPpuRdma };
inline constexpr int kBlockCount = 6;
inline constexpr Block kBlocks[kBlockCount] = {Block::kCna,     Block::kCore, Block::kDpu,
                                               Block::kDpuRdma, Block::kPpu,  Block::kPpuRdma};

// A field of CNA that has another number in programs for the second of two cores that share one
// CBUF, and by what it is larger there. The first of several is the one that tells.
struct SecondCoreField {
  enum class Step { kOne, kBanks, kEntries };  // kBanks: a core's; kEntries: those of these banks
  regs::Field field;
  Step step;
};

// The registers of a family of chips, sorted by target, then offset.
struct RegisterTable {
  Span<const regs::Register> all;
  uint16_t dpu_target_offset;  // DPU.DST_BASE_ADDR
  // Streams re-arm CNA and CORE as they do the other blocks; elsewhere only the kernel may.
  bool streams_arm_all;
  const struct Decoder* decoder;
  Span<const SecondCoreField> second_core;  // empty where cores share nothing
  const regs::Register* begin() const { return all.begin(); }
  const regs::Register* end() const { return all.end(); }
  // The register at (target, offset), or nullptr.
  const regs::Register* find(uint32_t target, uint32_t offset) const;
  // True if some register has this target.
  bool knows(uint32_t target) const;
  // Whether the register holds the address of what a task writes.
  bool is_output(uint32_t target, uint32_t offset) const {
    return (target == regs::dpu::kTarget && offset == dpu_target_offset) ||
           (target == regs::ppu::kTarget && offset == regs::ppu::dst_base_addr::kOffset);
  }
};
const RegisterTable& registers_of(const Chip& chip);
// The block that a target addresses; only for targets of blocks with register groups.
bool block_of_target(uint32_t target, Block* block);
const char* block_name(Block block);

// The registers of one block that one task reads.
class RegisterGroup {
 public:
  void write(uint16_t offset, uint32_t value) {
    values_[index(offset)] = value;
    written_.set(index(offset));
    is_new_.set(index(offset));
  }
  bool is_written(uint16_t offset) const { return written_.test(index(offset)); }
  // 0 if never written.
  uint32_t value_or_zero(uint16_t offset) const { return values_[index(offset)]; }
  // As the task that needs the register reads it: one that it did not write itself is inherited.
  uint32_t needed(uint16_t offset) const {
    if (!is_new_.test(index(offset))) inherits_ = true;
    return values_[index(offset)];
  }
  bool inherits() const { return inherits_; }
  void begin_task() {
    is_new_.reset();
    inherits_ = false;
  }

 private:
  // Windows are at most 0x200 bytes apart from their start.
  static constexpr size_t kSlots = 0x80;
  static size_t index(uint16_t offset) { return ((offset & 0xfffu) >> 2) % kSlots; }
  std::array<uint32_t, kSlots> values_{};
  std::bitset<kSlots> written_;
  std::bitset<kSlots> is_new_;  // by the running task
  mutable bool inherits_ = false;
};

// The name in a fault: a register of the block, or one of its fields.
struct Named {
  Named(uint16_t offset) : offset(offset) {}
  Named(regs::Field field) : offset(field.offset), field(field.name) {}
  Named(uint16_t offset, const char* field) : offset(offset), field(field) {}
  uint16_t offset;
  const char* field = nullptr;
};

// Reads one block's group for one task; faults name the register.
class BlockView {
 public:
  BlockView(const RegisterGroup& group, Block block, const Position& where,
            const RegisterTable& registers)
      : group_(&group), block_(block), where_(&where), registers_(&registers) {}

  // The register's word. Throws Fault NeverWrittenRegister: its value would be left over from other
  // programs.
  uint32_t word(uint16_t offset) const;
  bool is_written(uint16_t offset) const { return group_->is_written(offset); }
  uint32_t value_or_zero(uint16_t offset) const { return group_->value_or_zero(offset); }
  uint32_t raw(regs::Field field) const { return field.raw(word(field.offset)); }
  // The field as a number: sign, minus-one bias and unit applied.
  int64_t value(regs::Field field) const { return field.value(word(field.offset)); }
  // A feature that the simulator does not model: anything but `expected` is UnsupportedFeature. A
  // register that was never written counts as 0 where that is the expected value.
  void only(regs::Field field, uint32_t expected, const char* meaning) const;
  // "CNA.CBUF_CON0" or "CNA.CBUF_CON0.DATA_BANK".
  std::string name(Named named) const;
  template <typename... Parts>
  [[noreturn]] void fault(const char* kind, Named named, const Parts&... detail) const {
    raise(kind, *where_, name(named), detail...);
  }
  // A fault, or in the lenient mode a line of the report.
  template <typename... Parts>
  void complain(const char* kind, Named named, const Parts&... detail) const {
    sim::complain(kind, *where_, name(named), detail...);
  }
  // InconsistentSizes unless a number is the one that follows from `because`. Registers that
  // compute nothing here are expected to: their deviation may be downgraded.
  template <typename... Parts>
  void require_equal(Named named, int64_t number, int64_t expected, const Parts&... because) const {
    if (number == expected) return;
    fault(fault::kInconsistentSizes, named, "is ", number, " but ", because..., " makes it ",
          expected);
  }
  template <typename... Parts>
  void expect_equal(Named named, int64_t number, int64_t expected, const Parts&... because) const {
    if (number == expected) return;
    complain(fault::kInconsistentSizes, named, "is ", number, " but ", because..., " makes it ",
             expected);
  }
  // The same of a field's value.
  template <typename... Parts>
  void require(regs::Field field, int64_t expected, const Parts&... because) const {
    if (value(field) == expected) return;
    require_equal({field.offset, with_bias(field).c_str()}, value(field), expected, because...);
  }
  template <typename... Parts>
  void expect(regs::Field field, int64_t expected, const Parts&... because) const {
    if (value(field) == expected) return;
    expect_equal({field.offset, with_bias(field).c_str()}, value(field), expected, because...);
  }
  // An address of atoms. Throws Fault MisalignedAddress.
  uint64_t atom_address(uint16_t offset) const;
  const Position& where() const { return *where_; }

 private:
  // "WIDTH + 1" of a field that holds one less.
  static std::string with_bias(regs::Field field) {
    return field.bias == 0 ? field.name : joined(field.name, " + ", field.bias);
  }

  const RegisterGroup* group_;
  Block block_;
  const Position* where_;
  const RegisterTable* registers_;
};

// The two groups of every block and which of them the next task uses.
class RegisterFile {
 public:
  explicit RegisterFile(const RegisterTable& known) : known_(&known) {}
  // The chip's registers.
  const RegisterTable& known() const { return *known_; }
  // The running task's view of a block.
  BlockView view(Block block, const Position& where) const {
    return BlockView(current(block), block, where, *known_);
  }
  void write(Block block, uint16_t offset, uint32_t value) {
    groups_[static_cast<int>(block)][pointer_[static_cast<int>(block)]].write(offset, value);
  }
  const RegisterGroup& current(Block block) const {
    return groups_[static_cast<int>(block)][pointer_[static_cast<int>(block)]];
  }
  // After a task ran on the block: the other group is next, if the block's ping-pong is on.
  void advance(Block block) {
    if (ping_pong_[static_cast<int>(block)]) pointer_[static_cast<int>(block)] ^= 1;
  }
  // S_POINTER = 0xe: ping-pong from here on.
  void rearm(Block block) { ping_pong_[static_cast<int>(block)] = true; }
  // S_POINTER = 0x30: both pointers go back to the first group and stay there until the next rearm
  // (the clearing is documented; that the group then stays is assumed: no enable bit is set).
  void clear_pointer(Block block) {
    ping_pong_[static_cast<int>(block)] = false;
    pointer_[static_cast<int>(block)] = 0;
  }
  int group(Block block) const { return pointer_[static_cast<int>(block)]; }
  // Whether the running task needed a register that only tasks before it wrote.
  bool inherits() const {
    for (const auto& block : groups_) {
      if (block[0].inherits() || block[1].inherits()) return true;
    }
    return false;
  }
  void begin_task() {
    for (auto& block : groups_) {
      for (RegisterGroup& group : block) group.begin_task();
    }
  }

 private:
  const RegisterTable* known_;
  std::array<std::array<RegisterGroup, 2>, kBlockCount> groups_{};
  std::array<uint8_t, kBlockCount> pointer_{};
  // CNA and CORE are armed by the kernel driver and stay so.
  std::array<bool, kBlockCount> ping_pong_{true, true, true, true, true, true};
};

}  // namespace rk3588::sim
