#include "host/core_banks.h"

#include "sim/register_file.h"

namespace rk3588 {
namespace {

using sim::SecondCoreField;

// By how much the second core's number of a field is larger.
uint32_t step_of(const SecondCoreField& field, const Chip& chip) {
  const uint32_t bank_entries = chip.cbuf_bank_bytes / chip.cbuf_entry_bytes;
  if (field.step == SecondCoreField::Step::kOne) return 1;
  return field.step == SecondCoreField::Step::kBanks ? chip.cbuf_banks
                                                     : chip.cbuf_banks * bank_entries;
}

}  // namespace

bool has_second_banks(const Chip& chip, const sim::Word& word) {
  const Span<const SecondCoreField> fields = sim::registers_of(chip).second_core;
  return !fields.empty() && word.target == sim::regs::cna::kTarget &&
         word.offset == fields[0].field.offset && fields[0].field.raw(word.value) != 0;
}

void move_to_second_banks(const Chip& chip, Span<uint64_t> words) {
  for (uint64_t& command : words) {
    const sim::Word word = sim::decode(command);
    if (word.target != sim::regs::cna::kTarget) continue;
    uint32_t value = word.value;
    for (const SecondCoreField& field : sim::registers_of(chip).second_core) {
      if (field.field.offset == word.offset) value += step_of(field, chip) << field.field.lo;
    }
    command = sim::with_value(command, value);
  }
}

}  // namespace rk3588
