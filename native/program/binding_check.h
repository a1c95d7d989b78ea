// Checks of what a Program says of a tensor at its edge.
#pragma once

#include "program/program.h"

namespace rk3588 {

// These throw ProgramError.

// How values are converted.
void check_values(const Binding& binding);
// Where `box` of `binding` lies, in a buffer of `buffer_bytes` and in the host's tensor.
void check_extent(const Binding& binding, const Box& box, uint64_t buffer_bytes);
// Whether the boxes make the tensor: of each, check_extent has passed.
void check_boxes(const Binding& binding);

// Whether both are spread boxes of one tensor.
bool is_same_tensor(const Binding& one, const Binding& other);

}  // namespace rk3588
