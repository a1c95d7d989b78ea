#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "chip/chip_gen.h"

namespace rk3588 {

// Nanoseconds of the fastest of `repeats` runs: to the device's layout, back, and a copy of the
// same host bytes. For benchmarks.
std::tuple<uint64_t, uint64_t, uint64_t> time_layout(size_t pixels, size_t channels,
                                                     Element element, size_t repeats);

}  // namespace rk3588
