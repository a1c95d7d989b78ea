// A running TfLiteContext as plain Python values; delegate/model/context_reader.py makes a Graph of
// them.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "tflite/tflite_abi.h"

namespace rk3588 {

// All tensors of the context as they are now. Constants come as read-only views of the runtime's
// memory that keep nothing alive: they are valid while the interpreter lives.
pybind11::list snapshot_tensors(const tflite::Context& context);

// Bytes of the runtime's options structs, by builtin code: delegate/ops knows how far it reads
// them.
using OptionSizes = std::map<int32_t, size_t>;

// {"tensors": [...], "nodes": [...], "reduced_precision": ...}; nodes in execution order, the last
// what the model's metadata says of reduced precision, or None. Only inside the delegate's prepare.
pybind11::dict snapshot_context(tflite::Context* context, const OptionSizes& sizes);

}  // namespace rk3588
