#include "host/core_banks.h"

#include "chip/registers_rk3576_gen.h"

namespace rk3588 {
namespace {

namespace cna = sim::regs::rk3576::cna;

// `value` with `more` added to the number in one of its fields.
uint32_t add_to(uint32_t value, const sim::regs::Field& field, uint32_t more) {
  return value + (more << field.lo);
}

uint32_t moved(uint32_t offset, uint32_t value, const Chip& chip) {
  const uint32_t banks = chip.cbuf_banks;
  const uint32_t entries = banks * (chip.cbuf_bank_bytes / chip.cbuf_entry_bytes);
  switch (offset) {
    case cna::cbuf_con0::kOffset:
      return add_to(value, cna::cbuf_con0::kWeightFirstBank, banks);
    case cna::cbuf_con1::kOffset:
      return add_to(value | 1u << cna::cbuf_con1::kSecondCore.lo, cna::cbuf_con1::kEndBank, banks);
    case cna::cbuf_con2::kOffset:
      return add_to(value, cna::cbuf_con2::kWindowStart, entries);
    case cna::cbuf_con3::kOffset:
      return add_to(add_to(value, cna::cbuf_con3::kDataEnd, entries), cna::cbuf_con3::kFetchStart,
                    entries);
    default:
      return value;
  }
}

}  // namespace

bool has_second_banks(const sim::Word& word) {
  return word.target == cna::kTarget && word.offset == cna::cbuf_con1::kOffset &&
         cna::cbuf_con1::kSecondCore.raw(word.value) != 0;
}

void move_to_second_banks(const Chip& chip, Span<uint64_t> words) {
  for (uint64_t& command : words) {
    const sim::Word word = sim::decode(command);
    if (word.target != cna::kTarget) continue;
    command = sim::with_value(command, moved(word.offset, word.value, chip));
  }
}

}  // namespace rk3588
