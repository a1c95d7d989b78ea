// The proofs that the library carries (proofs_gen.h), unpacked.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rk3588 {

// `text`: base64 of one LZ4 block of `size` bytes. Trusted: it comes from the build. Throws
// std::logic_error if it is not that.
std::vector<uint8_t> unpack(std::string_view text, size_t size);

}  // namespace rk3588
