// Changes of command streams that keep most of them meaningful.
#pragma once

#include <cstdint>
#include <random>

#include "span.h"

namespace rk3588::fuzz {

// One change of a seed in place: a bit, a command's value, a value nearby, or a command copied over
// another. `seed` has the format that fuzz_stream.cpp describes.
void mutate(Span<uint8_t> seed, std::mt19937_64* random);

}  // namespace rk3588::fuzz
