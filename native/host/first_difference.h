// Which task first left other bytes in memory than on another device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/device.h"

namespace rk3588 {

// A buffer of one device, and what the buffer in its place holds on the other.
struct ComparedBuffer {
  Buffer* buffer = nullptr;
  std::vector<uint8_t> other;
};

// Label of the first task of `submit` whose last result still lies in memory and differs, "" if
// there is none. Lanes beyond a tensor's channels count as well. Throws StreamError.
std::string first_difference(const Submit& submit, const std::vector<ComparedBuffer>& buffers);

}  // namespace rk3588
