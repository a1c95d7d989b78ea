// Whether a runtime's execution plan can be partitioned: the runtime itself does not ask.
#pragma once

#include <string>

#include "tflite/tflite_abi.h"

namespace rk3588 {

// Why the nodes of the plan cannot run one after the other, empty if they can: a tensor is read
// before it is written, or written twice. The runtime partitions by which results are ready, and
// writes out of bounds where an output of the graph never gets ready, so it must not be asked to
// preview or replace nodes of such a plan. Throws std::runtime_error if the runtime does not
// answer.
std::string plan_disorder(tflite::Context* context);

}  // namespace rk3588
