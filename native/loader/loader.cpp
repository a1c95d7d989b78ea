// The library that hosts load by path: no Python symbol, no TensorFlow Lite symbol.
//
// In a Python process it hands over to the module delegate._native, which compiles models. In any
// other, and where the module cannot be imported, it runs models that were compiled ahead of time;
// the environment variable RK3588_LIBPYTHON makes it load a Python to compile with.
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>

#include "native_options.h"
#include "program_home.h"
#include "python_process.h"
#include "tflite/compiled_operator.h"
#include "tflite/delegate_object.h"
#include "tflite/tflite_abi.h"

namespace rk3588 {
namespace {

using tflite::Delegate;

// Why models are not compiled in this process. A failure: there is or should be a Python for it.
struct NoCompiler {
  std::string reason;
  bool is_failure = false;
};

// A model without compiled programs is left to the CPU with a warning; it is refused under
// `strict`, where a device is named and where the compiler's absence is a failure.
class NativeSession : public Session {
 public:
  NativeSession(const NativeOptions& options, NoCompiler no_compiler)
      : home_(options), no_compiler_(std::move(no_compiler)) {}

  void prepare(tflite::Context* context, tflite::Delegate* delegate) override {
    const Claim claim =
        install_compiled_operators(context, delegate, home_.settings(context->threads()));
    const std::string left = std::to_string(claim.total - claim.claimed) + " of " +
                             std::to_string(claim.total) + " nodes";
    const NativeOptions& options = home_.options();
    if (claim.claimed == 0 && claim.total > 0) {
      const std::string what =
          no_compiler_.is_failure ? "" : "this model was not compiled ahead of time and ";
      const std::string text =
          what + no_compiler_.reason + ": " + left +
          " stay on the CPU; make a compiled model with: rk3588-delegate compile MODEL -o "
          "OUT.tflite";
      if (options.strict) throw std::runtime_error("strict: " + text);
      // Whoever names a device wants the model to run there.
      if (options.device != "auto" || no_compiler_.is_failure) throw std::runtime_error(text);
      home_.log(LogLevel::kWarning, text);
      return;
    }
    if (options.strict && claim.claimed < claim.total) {
      throw std::runtime_error("strict: " + left +
                               " of this model, compiled ahead of time, stay on the CPU; compile "
                               "it under strict, which names them, and load it without");
    }
    home_.announce_simulator();
    home_.log(LogLevel::kInfo, home_.device_name() + ": " + std::to_string(claim.claimed) +
                                   " compiled operators; " + left + " stay on the CPU");
  }

 private:
  ProgramHome home_;
  NoCompiler no_compiler_;
};

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
    return make_delegate(std::make_shared<NativeSession>(options, std::move(no_compiler)));
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
