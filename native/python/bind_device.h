// Bindings of devices: recorded runs, and what `doctor` asks.
#pragma once

#include <pybind11/pybind11.h>

void bind_devices(pybind11::module_& module);
