// Python's view of the simulator.
#pragma once

#include <pybind11/pybind11.h>

// Adds simulate() to the module.
void bind_simulator(pybind11::module_& module);
