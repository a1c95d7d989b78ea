// The cores of a chip whose cores share one CBUF: each has banks of its own, which commands name.
//
// Programs are compiled for the first core. Those of the vendor's compiler for the second differ in
// four registers of CNA, on every layer compared: the banks, by as many as a core has, the entries,
// by those banks' entries, and a bit.
#pragma once

#include "chip/chip_gen.h"
#include "sim/pc.h"
#include "span.h"

namespace rk3588 {

// Whether a command takes the second core's banks.
bool has_second_banks(const sim::Word& word);

// Makes of a task's commands for the first core those for the second.
void move_to_second_banks(const Chip& chip, Span<uint64_t> words);

}  // namespace rk3588
