// Whether a device's results are the simulator's.
//
// Integers are, bit for bit. Results in fp16 may be off by kHalfTolerance of the tensor's largest
// magnitude: on silicon the first of 16 channels was now and then a rounding off, differently by
// core, and the 217 layers that others ran were within .11 of values to 100 (.0011;
// reference/silicon.md, fp16_convolution; reference/hardware.md, section 8).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "span.h"

namespace rk3588 {

inline constexpr float kHalfTolerance = 1.0F / 512;

// Compares dense host tensors in the order of the bindings: returns a sentence on the first that
// differs, or "".
std::string result_difference(const std::vector<Binding>& bindings,
                              Span<const uint8_t* const> found,
                              const std::vector<std::vector<uint8_t>>& expected);

// The same of fp16 in memory of a device.
bool are_same_halves(Span<const uint8_t> found, Span<const uint8_t> expected);

}  // namespace rk3588
