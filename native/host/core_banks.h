// Programs for the second of two cores that share one CBUF. Each core has banks of its own, which
// commands name; programs are compiled for the first core.
#pragma once

#include "chip/chip_gen.h"
#include "sim/pc.h"
#include "span.h"

namespace rk3588 {

// Whether a command takes the second core's banks.
bool has_second_banks(const Chip& chip, const sim::Word& word);

// Turns a task's commands for the first core into those for the second.
void move_to_second_banks(const Chip& chip, Span<uint64_t> words);

}  // namespace rk3588
