// The Python of this process, reached without linking to it: only functions of the stable ABI,
// looked up by name, so that one library serves every Python version and processes without any.
#pragma once

#include <string>

#include "tflite_abi.h"

namespace rk3588 {

using CreateFunction = tflite::Delegate* (*)(const char* const*, const char* const*, size_t,
                                             tflite::ReportError);
using DestroyFunction = void (*)(tflite::Delegate*);

// The two functions of the Python module, or why there is none.
struct PythonPlugin {
  CreateFunction create = nullptr;
  DestroyFunction destroy = nullptr;
  std::string problem;
};

bool is_python_running();

// Imports delegate._native, also when its folder is not on sys.path, and finds its functions. Takes
// the GIL. Never throws what Python raises: it becomes `problem`.
PythonPlugin find_python_plugin();

}  // namespace rk3588
