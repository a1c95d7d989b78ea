// The library that hosts load by path: no Python symbol, no TensorFlow Lite symbol.
//
// In a Python process it hands over to the module delegate._native, which compiles models. In any
// other, and where the module cannot be imported, it runs models that were compiled ahead of time;
// the environment variable RK3588_LIBPYTHON makes it load a Python to compile with.
#include <exception>
#include <mutex>
#include <string>
#include <unordered_set>

#include "native_options.h"
#include "native_session.h"
#include "python_process.h"
#include "tflite/delegate_object.h"
#include "tflite/tflite_abi.h"

namespace rk3588 {
namespace {

using tflite::Delegate;

// Delegates that the Python module made, for ever: they are never freed, only emptied.
struct Forwarded {
  std::mutex mutex;
  std::unordered_set<const Delegate*> delegates;
  DestroyFunction destroy = nullptr;
};

Forwarded& forwarded() {
  static Forwarded instance;
  return instance;
}

Delegate* forward(const PythonPlugin& plugin, const char* const* keys, const char* const* values,
                  size_t count, tflite::ReportError report) {
  Delegate* delegate = plugin.create(keys, values, count, report);
  if (delegate == nullptr) return nullptr;
  Forwarded& made = forwarded();
  const std::lock_guard<std::mutex> lock(made.mutex);
  made.delegates.insert(delegate);
  made.destroy = plugin.destroy;
  return delegate;
}

Delegate* create(const char* const* keys, const char* const* values, size_t count,
                 tflite::ReportError report) {
  std::string text;
  try {
    NoCompiler no_compiler{"this process runs no Python, which compiles models"};
    const char* libpython = is_python_running() ? nullptr : chosen_libpython();
    if (libpython != nullptr) {
      const std::string problem = start_python(libpython);
      if (!problem.empty()) {
        no_compiler = {"RK3588_LIBPYTHON cannot be loaded (" + problem + ")", true};
      }
    }
    if (is_python_running()) {
      const PythonPlugin plugin = find_python_plugin();
      if (plugin.create != nullptr) return forward(plugin, keys, values, count, report);
      no_compiler = {tells_of_memory(plugin.problem)
                         ? "memory ran out while the compiler was loaded (" + plugin.problem + ")"
                         : "the compiler cannot be imported (" + plugin.problem + ")",
                     true};
    }
    const NativeOptions options = read_native_options(keys, values, count);
    return make_delegate(make_native_session(options, std::move(no_compiler)));
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "unknown failure";
  }
  return refuse_delegate(text, report);
}

void destroy(Delegate* delegate) {
  if (delegate == nullptr) return;
  Forwarded& made = forwarded();
  DestroyFunction other = nullptr;
  {
    const std::lock_guard<std::mutex> lock(made.mutex);
    if (made.delegates.count(delegate) != 0) other = made.destroy;
  }
  if (other != nullptr) {
    other(delegate);
  } else {
    destroy_delegate(delegate);
  }
}

}  // namespace
}  // namespace rk3588

#include "tflite/plugin_entry.inc"
