// Refusing a Program, and checks of its tensors at the edge.
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

// These throw ProgramError.

// How values are converted.
void check_values(const Binding& binding);
// Where `box` of `binding` lies, in a buffer of `buffer_bytes` and in the host's tensor. Returns
// where it ends in the buffer.
uint64_t check_extent(const Binding& binding, const Box& box, uint64_t buffer_bytes);
// Whether the boxes make the tensor: of each, check_extent has passed.
void check_boxes(const Binding& binding);

// Whether both are spread boxes of one tensor.
bool is_same_tensor(const Binding& one, const Binding& other);

}  // namespace rk3588
