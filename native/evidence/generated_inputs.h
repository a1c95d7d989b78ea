// Inputs for a program that nobody has run yet.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace rk3588 {

// Dense host tensors in the order of the bindings: the same for the same program. Integers are any;
// float32 becomes any byte where the device has bytes, else it is finite, with magnitudes of 1/64
// to 4.
std::vector<std::vector<uint8_t>> generated_inputs(const std::vector<Binding>& inputs);

}  // namespace rk3588
