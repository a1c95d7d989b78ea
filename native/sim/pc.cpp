#include "sim/pc.h"

#include <cstring>

namespace rk3588::sim {
namespace {

constexpr uint32_t kWordBytes = 8;
// BASE_ADDRESS holds bits 31..4 of the next segment's address.
constexpr uint64_t kSegmentAlignment = 16;

uint64_t load(const uint8_t* bytes) {
  uint64_t word = 0;
  for (int i = kWordBytes - 1; i >= 0; --i) word = word << 8 | bytes[i];
  return word;
}

class SegmentReader {
 public:
  SegmentReader(RegisterFile& registers, LutTables& tables, const Position& where)
      : known_(registers.known()), registers_(registers), tables_(tables), where_(where) {}

  // Returns true when the word started the task.
  bool execute(const Word& word, uint64_t address) {
    if (word.target == kTargetFiller) {
      if (word.value != 0 || word.offset != 0) {
        raise(fault::kUnknownTarget, where_, "PC", at(address),
              "a word without target must be 0 (filler) but holds value ", hex(word.value),
              " for offset ", hex(word.offset));
      }
      return false;
    }
    const regs::Register& reg = lookup(word, address);
    check_word(reg, word, address);
    switch (word.target) {
      case regs::sync::kTarget:
        has_barrier_ = true;
        return false;
      case regs::enable::kTarget:
        enable(word.value);
        return true;
      case regs::pc::kTarget:
        write_pc(word);
        return false;
      default:
        write_block(word);
        return false;
    }
  }

  const SegmentEnd& end() const { return end_; }

 private:
  static std::string at(uint64_t address) { return "the word at " + hex(address) + ": "; }

  const regs::Register& lookup(const Word& word, uint64_t address) const {
    const regs::Register* reg = known_.find(word.target, word.offset);
    if (reg != nullptr) return *reg;
    if (!known_.knows(word.target)) {
      raise(fault::kUnknownTarget, where_, "PC", at(address), "no block has target ",
            hex(word.target), " (offset ", hex(word.offset), ", value ", hex(word.value), ")");
    }
    Block block;
    const std::string unit = block_of_target(word.target, &block) ? block_name(block) : "PC";
    raise(fault::kUnknownRegister, where_, unit + "." + hex(word.offset), at(address), "target ",
          hex(word.target), " has no register at offset ", hex(word.offset));
  }

  void check_word(const regs::Register& reg, const Word& word, uint64_t address) const {
    if (reg.access != regs::Access::kStream) {
      raise(fault::kForbiddenRegister, where_, reg.name,
            at(address) + (reg.access == regs::Access::kHost
                               ? "only the kernel driver may write this register; a stream that "
                                 "does hangs the core"
                               : "the register is read only"));
    }
    // Entries of tables may be extended to the whole word: LutTables looks at them.
    const bool is_entry =
        reg.target == regs::dpu::kTarget && reg.offset == regs::dpu::lut_access_data::kOffset;
    if ((word.value & ~reg.valid) != 0 && !is_entry) {
      complain(fault::kReservedBits, where_, reg.name, at(address), "value ", hex(word.value),
               " sets reserved bits ", hex(word.value & ~reg.valid), "; they must be 0");
    }
  }

  void write_pc(const Word& word) {
    namespace r = regs::pc;
    if (word.offset == r::base_address::kOffset) {
      if (r::base_address::kPcSel.raw(word.value) != 0) {
        raise(fault::kInvalidValue, where_, "PC.BASE_ADDRESS.PC_SEL",
              "a stream may not switch the PC to slave mode; write 0");
      }
      end_.next_address = word.value;
      return;
    }
    if (r::register_amounts::kWaitCores.raw(word.value) != 0) {
      complain(fault::kUnsupportedFeature, where_, "PC.REGISTER_AMOUNTS.WAIT_CORES",
               "waiting for other cores (", r::register_amounts::kWaitCores.raw(word.value),
               ") is not modelled by this simulator; supported is 0");
    }
    has_amounts_ = true;
    // The amount counts pairs of words, minus one.
    const uint32_t amount = r::register_amounts::kPcDataAmount.raw(word.value);
    end_.next_words = (amount + 1) * 2;
  }

  void write_block(const Word& word) {
    Block block;
    block_of_target(word.target, &block);
    const bool is_pointer = (word.offset & 0xfff) == 0x004;
    if (!is_pointer) {
      if (block == Block::kDpu && word.offset == regs::dpu::lut_access_cfg::kOffset) {
        tables_.configure(word.value, where_);
      }
      if (block == Block::kDpu && word.offset == regs::dpu::lut_access_data::kOffset) {
        tables_.push(word.value, where_);
      }
      registers_.write(block, static_cast<uint16_t>(word.offset), word.value);
      return;
    }
    if (word.value == kPointerClear) {
      registers_.clear_pointer(block);
    } else {
      if (word.value != kPointerRearm) {
        complain(fault::kInvalidValue, where_, known_.find(word.target, word.offset)->name,
                 "value ", hex(word.value), " is in no known program; known are ",
                 hex(kPointerRearm), " (ping-pong of both pointers) and ", hex(kPointerClear),
                 " (both cleared)");
      }
      registers_.rearm(block);
    }
    rearmed_[static_cast<size_t>(block)] = true;
  }

  void enable(uint32_t mask) {
    const char* reg = "ENABLE.OPERATION_ENABLE";
    end_.enable_mask = mask;
    if (!has_barrier_) {
      complain(fault::kMissingBarrier, where_, reg,
               "no word for target 0x0041 comes before it; the tail needs one");
    }
    if (!has_amounts_) {
      complain(fault::kMissingTail, where_, reg,
               "the tail has no PC.REGISTER_AMOUNTS word; write it (0 in the last task)");
    }
    for (const Block block : kBlocks) {
      // Elsewhere the kernel arms these two.
      const bool is_armed =
          !known_.streams_arm_all && (block == Block::kCna || block == Block::kCore);
      if (is_armed || rearmed_[static_cast<size_t>(block)] || !starts(mask, block)) continue;
      const bool reads = block == Block::kDpuRdma || block == Block::kPpuRdma;
      complain(fault::kNotRearmed, where_,
               joined(block_name(block), reads ? ".RDMA_S_POINTER" : ".S_POINTER"),
               "the task starts this block without writing ", hex(kPointerRearm),
               " to it first; the block would run the previous task again");
    }
  }

  const RegisterTable& known_;
  RegisterFile& registers_;
  LutTables& tables_;
  const Position& where_;
  SegmentEnd end_;
  std::array<bool, kBlockCount> rearmed_{};  // by block
  bool has_barrier_ = false;
  bool has_amounts_ = false;
};

}  // namespace

SegmentEnd run_segment(const Memory& memory, RegisterFile& registers, LutTables& tables,
                       uint64_t address, uint32_t words, const Position& where) {
  if (address % kSegmentAlignment != 0) {
    raise(fault::kMisalignedAddress, where, "PC.BASE_ADDRESS", "command segment ", hex(address),
          " must be aligned to ", kSegmentAlignment, " bytes");
  }
  if (words == 0) {
    raise(fault::kMissingEnable, where, "PC.REGISTER_AMOUNTS", "the command segment has no words");
  }
  const AddressPattern range{address, uint64_t{words} * kWordBytes, 0, 1};
  const uint8_t* bytes = memory.read(range, where, "PC.BASE_ADDRESS", "the command segment");
  SegmentReader reader(registers, tables, where);
  bool started = false;
  for (uint32_t i = 0; i < words; ++i) {
    const Word word = decode(load(bytes + uint64_t{i} * kWordBytes));
    const uint64_t word_address = address + uint64_t{i} * kWordBytes;
    if (started) {
      if (word.target == kTargetFiller && word.value == 0 && word.offset == 0) continue;
      raise(fault::kWordsAfterEnable, where, "PC", "the word at ", hex(word_address),
            " follows the operation enable; only filler may");
    }
    started = reader.execute(word, word_address);
  }
  if (!started) {
    raise(fault::kMissingEnable, where, "ENABLE.OPERATION_ENABLE", "none of the ", words,
          " words at ", hex(address),
          " starts the task (target 0x0081); the core would wait for ever");
  }
  return reader.end();
}

}  // namespace rk3588::sim
