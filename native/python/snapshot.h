// A running TfLiteContext as plain Python values; delegate/context_reader.py makes a Graph of them.
#pragma once

#include <pybind11/pybind11.h>

#include "tflite_abi.h"

namespace rk3588 {

// All tensors of the context as they are now. Constants come as read-only views of the runtime's
// memory that keep nothing alive: they are valid while the interpreter lives.
pybind11::list snapshot_tensors(const tflite::Context& context);

// {"tensors": [...], "nodes": [...]}; nodes in execution order. Only inside the delegate's prepare.
pybind11::dict snapshot_context(tflite::Context* context);

}  // namespace rk3588
