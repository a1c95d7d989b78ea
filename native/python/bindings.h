// The parts of the Python module delegate._native, and how they refuse.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

#include "span.h"

namespace rk3588 {

// Raises an error of delegate.errors.
[[noreturn]] void raise(const char* error, const std::string& text);

// While `info` is there.
inline Span<const uint8_t> content(const pybind11::buffer_info& info) {
  return {static_cast<const uint8_t*>(info.ptr), static_cast<size_t>(info.size * info.itemsize)};
}

// Devices: recorded runs, and what `doctor` asks.
void bind_devices(pybind11::module_& module);
void bind_layouts(pybind11::module_& module);
// Python's view of the simulator.
void bind_simulator(pybind11::module_& module);

}  // namespace rk3588
