// The Python of this process, reached without linking to it: only functions of the stable ABI,
// looked up by name, so that one library serves every Python version and processes without any.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "tflite/tflite_abi.h"

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

// Whether a problem is that memory ran out, by the words of Python, of the loader of libraries and
// of the C library.
bool tells_of_memory(const std::string& problem);

bool is_python_running();

// The shared libpythonX.Y that a process without Python is to load, or null: RK3588_LIBPYTHON.
const char* chosen_libpython();

// Loads a libpython into this process, for ever, and starts it without signal handlers and with the
// GIL free. Empty if that was done, now or before; else why not. If the library does not find its
// standard library, Python itself ends the process.
std::string start_python(const char* libpython);

// Imports delegate._native, also when its folder is not on sys.path, and finds its functions. Takes
// the GIL. Never throws what Python raises: it becomes `problem`.
PythonPlugin find_python_plugin();

// An object of the package delegate that answers a library which has no binding of its own.
class PythonObject {
 public:
  // Imports `module`, whose package lies in `folder` if it is not on sys.path, and gives its class
  // `name` a number and a text. Takes the GIL, as the other members do. Throws std::runtime_error
  // with Python's words.
  PythonObject(const char* module, const std::string& folder, const char* name, uintptr_t number,
               const std::string& text);
  // Also after Python is gone.
  ~PythonObject();
  PythonObject(const PythonObject&) = delete;
  PythonObject& operator=(const PythonObject&) = delete;

  // Calls a method that takes up to four numbers and returns nothing. Throws std::runtime_error.
  void call(const char* method, std::initializer_list<uintptr_t> numbers) const;
  // Returns an attribute as a text. Throws std::runtime_error.
  std::string text(const char* attribute) const;

 private:
  void* object_ = nullptr;
};

}  // namespace rk3588
