// How a Program is refused, and the limit that several of its checks share.
#pragma once

#include <string>

#include "program/program.h"

namespace rk3588 {

// A limit of sanity, far above real programs.
inline constexpr uint64_t kMaxBufferBytes = uint64_t{1} << 30;

[[noreturn]] inline void fail(const std::string& message) {
  throw ProgramError("program: " + message + "; compile the model again");
}

inline void require(bool condition, const char* message) {
  if (!condition) fail(message);
}

}  // namespace rk3588
