#include "sim/register_file.h"

#include <algorithm>
#include <iterator>

#include "sim/rk3576/decode.h"

namespace rk3588::sim {
namespace {

constexpr std::array<uint16_t, kBlockCount> kTargets = {
    regs::cna::kTarget,      regs::core::kTarget, regs::dpu::kTarget,
    regs::dpu_rdma::kTarget, regs::ppu::kTarget,  regs::ppu_rdma::kTarget};
constexpr std::array<const char*, kBlockCount> kNames = {"CNA",      "CORE", "DPU",
                                                         "DPU_RDMA", "PPU",  "PPU_RDMA"};

const RegisterTable kBaseRegisters = {{regs::kRegisters, std::size(regs::kRegisters)},
                                      regs::dpu::dst_base_addr::kOffset,
                                      false,
                                      &kBaseDecoder,
                                      {}};

// By Chip::register_map.
const RegisterTable* const kTables[] = {&kBaseRegisters, &rk3576::kRegisterTable};

const regs::Register* lower_bound(const RegisterTable& table, uint32_t target, uint32_t offset) {
  return std::lower_bound(table.begin(), table.end(), std::make_pair(target, offset),
                          [](const regs::Register& reg, const std::pair<uint32_t, uint32_t>& key) {
                            return reg.target != key.first ? reg.target < key.first
                                                           : reg.offset < key.second;
                          });
}

}  // namespace

const RegisterTable& registers_of(const Chip& chip) {
  return *kTables[chip.register_map < std::size(kTables) ? chip.register_map : 0];
}

const regs::Register* RegisterTable::find(uint32_t target, uint32_t offset) const {
  const regs::Register* reg = lower_bound(*this, target, offset);
  return reg != end() && reg->target == target && reg->offset == offset ? reg : nullptr;
}

bool RegisterTable::knows(uint32_t target) const {
  const regs::Register* reg = lower_bound(*this, target, 0);
  return reg != end() && reg->target == target;
}

bool block_of_target(uint32_t target, Block* block) {
  for (int i = 0; i < kBlockCount; ++i) {
    if (kTargets[i] == target) {
      *block = static_cast<Block>(i);
      return true;
    }
  }
  return false;
}

const char* block_name(Block block) { return kNames[static_cast<int>(block)]; }

std::string BlockView::name(Named named) const {
  const regs::Register* reg = registers_->find(kTargets[static_cast<int>(block_)], named.offset);
  std::string text =
      reg != nullptr ? reg->name : joined(block_name(block_), ".", hex(named.offset));
  if (named.field != nullptr) text += joined(".", named.field);
  return text;
}

uint32_t BlockView::word(uint16_t offset) const {
  if (!group_->is_written(offset)) {
    complain(fault::kNeverWrittenRegister, offset,
             "no task of this run has written it in the register group that this task uses, so its "
             "value is left over from another program; write it in the first two tasks");
  }
  return group_->needed(offset);
}

void BlockView::only(regs::Field field, uint32_t expected, const char* meaning) const {
  const uint32_t found =
      field.raw(expected != 0 ? word(field.offset) : group_->value_or_zero(field.offset));
  if (found != expected) {
    fault(fault::kUnsupportedFeature, field, meaning, " (", found,
          ") is not modelled by this simulator; supported is ", expected);
  }
}

uint64_t BlockView::atom_address(uint16_t offset) const {
  const uint64_t address = word(offset);
  if (address % kAtomBytes != 0) {
    fault(fault::kMisalignedAddress, offset, "address ", hex(address), " must be a multiple of 16");
  }
  return address;
}

}  // namespace rk3588::sim
