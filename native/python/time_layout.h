#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

namespace rk3588 {

// Nanoseconds of the fastest of `repeats` runs: to the device's layout, back, and a copy of the
// same host bytes. For benchmarks.
std::tuple<uint64_t, uint64_t, uint64_t> time_layout(size_t pixels, size_t channels, bool is_uint8,
                                                     size_t repeats);

}  // namespace rk3588
