// The external delegate's two C functions and its prepare: asks Python to compile, installs
// kernels.
//
// The Delegate struct is never freed: an interpreter may outlive the user's handle and call prepare
// through it (after a resize, or when the handle was copied and destroyed twice). destroy()
// releases everything it owns and turns it into one that claims nothing.
#include <dlfcn.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "delegate_kernel.h"
#include "device.h"
#include "executable.h"
#include "snapshot.h"
#include "tflite_abi.h"

namespace py = pybind11;

namespace rk3588 {
namespace {

using tflite::Context;
using tflite::Delegate;
using tflite::DelegateParams;
using tflite::IntArray;
using tflite::Status;

// A Python object that may be dropped anywhere, also after Python is gone.
class PyHandle {
 public:
  explicit PyHandle(py::object object) : object_(std::move(object)) {}
  ~PyHandle() {
    if (Py_IsInitialized() == 0) {
      static_cast<void>(object_.release());
      return;
    }
    const py::gil_scoped_acquire gil;
    object_ = py::object();
  }
  PyHandle(const PyHandle&) = delete;
  PyHandle& operator=(const PyHandle&) = delete;
  const py::object& get() const { return object_; }

 private:
  py::object object_;
};

struct DelegateState {
  std::unique_ptr<PyHandle> session;  // delegate.plugin.Session
  std::shared_ptr<Device> device;
  uint32_t timeout_ms = 0;
};

// Guards Delegate::data against a destroy() in another thread.
std::mutex g_states_mutex;

using StatePointer = std::shared_ptr<DelegateState>;

StatePointer state_of(const Delegate* delegate) {
  const std::lock_guard<std::mutex> lock(g_states_mutex);
  if (delegate->data == nullptr) return nullptr;
  return *static_cast<StatePointer*>(delegate->data);
}

// An int array of the C ABI: its size, then the elements.
class IntArrayStorage {
 public:
  explicit IntArrayStorage(const std::vector<int32_t>& values) {
    storage_.reserve(values.size() + 1);
    storage_.push_back(static_cast<int32_t>(values.size()));
    storage_.insert(storage_.end(), values.begin(), values.end());
  }
  const IntArray* get() const { return reinterpret_cast<const IntArray*>(storage_.data()); }

 private:
  std::vector<int32_t> storage_;
};

// One line for the user: the text of the project's own errors, type and text of others.
std::string error_text(const py::error_already_set& error) {
  const std::string text = py::str(error.value()).cast<std::string>();
  const py::object base = py::module_::import("delegate.errors").attr("DelegateError");
  if (error.matches(base)) return text;
  return "internal error: " + py::type::of(error.value()).attr("__name__").cast<std::string>() +
         ": " + text;
}

// Folder that contains the package this library belongs to, links resolved.
std::string package_parent() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&package_parent), &info) == 0) return {};
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(info.dli_fname, nullptr),
                                                         &std::free);
  if (real == nullptr) return {};
  std::string path = real.get();
  for (int level = 0; level < 2; ++level) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {};
    path.resize(slash);
  }
  return path;
}

// The package may be absent from sys.path when the library is loaded by path alone.
py::module_ import_plugin() {
  try {
    return py::module_::import("delegate.plugin");
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ModuleNotFoundError)) throw;
  }
  py::module_::import("sys").attr("path").attr("append")(package_parent());
  return py::module_::import("delegate.plugin");
}

py::str decode(const char* bytes) {
  const size_t size = std::char_traits<char>::length(bytes);
  PyObject* text = PyUnicode_DecodeUTF8(bytes, static_cast<Py_ssize_t>(size), "replace");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

// The partitions that the runtime would make of `nodes`: (nodes, inputs, outputs), constants left
// out.
std::vector<std::tuple<std::vector<int32_t>, std::vector<int32_t>, std::vector<int32_t>>> preview(
    Context* context, const std::vector<int32_t>& nodes) {
  if (nodes.empty()) return {};
  DelegateParams* params = nullptr;
  int32_t count = 0;
  const IntArrayStorage array(nodes);
  if (context->preview_delegate_partitioning(context, array.get(), &params, &count) !=
      Status::kOk) {
    throw std::runtime_error("the runtime cannot preview the partitions");
  }
  std::vector<std::tuple<std::vector<int32_t>, std::vector<int32_t>, std::vector<int32_t>>> result;
  for (int32_t i = 0; i < count; ++i) {
    std::vector<int32_t> inputs;
    for (const int32_t tensor : *params[i].input_tensors) {
      if (tensor >= 0 && !context->tensors[tensor].is_constant()) inputs.push_back(tensor);
    }
    const IntArray& members = *params[i].nodes_to_replace;
    const IntArray& outputs = *params[i].output_tensors;
    result.emplace_back(std::vector<int32_t>(members.begin(), members.end()), std::move(inputs),
                        std::vector<int32_t>(outputs.begin(), outputs.end()));
  }
  return result;
}

// preview() as a Python function that refuses to work once prepare is over.
py::cpp_function preview_function(std::shared_ptr<Context*> context) {
  return py::cpp_function([context = std::move(context)](const std::vector<int32_t>& nodes) {
    if (*context == nullptr) throw std::runtime_error("preview works only while preparing");
    return preview(*context, nodes);
  });
}

std::unique_ptr<Executable> make_executable(const DelegateState& state, const py::bytes& program) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(program.ptr(), &data, &size) != 0) throw py::error_already_set();
  return std::make_unique<Executable>(
      Span<const uint8_t>(reinterpret_cast<const uint8_t*>(data), static_cast<size_t>(size)),
      state.device, state.timeout_ms);
}

// Called from a kernel's prepare, with or without the GIL.
Recompile recompile_function(StatePointer state, py::object callable) {
  auto handle = std::make_shared<PyHandle>(std::move(callable));
  return [state = std::move(state), handle](Context* context) {
    const py::gil_scoped_acquire gil;
    try {
      const py::bytes program = handle->get()(snapshot_tensors(*context));
      return make_executable(*state, program);
    } catch (const py::error_already_set& error) {
      throw std::runtime_error(error_text(error));
    }
  };
}

// Compiles what can be compiled. Throws.
std::vector<PendingKernel> compile(const StatePointer& state, Context* context) {
  auto alive = std::make_shared<Context*>(context);
  const auto expire = [](Context** pointer) { *pointer = nullptr; };
  const std::unique_ptr<Context*, decltype(expire)> guard(alive.get(), expire);
  const py::object compiled =
      state->session->get().attr("prepare")(snapshot_context(context), preview_function(alive));
  std::vector<PendingKernel> pending;
  for (const py::handle item : compiled) {
    const auto partition = item.cast<py::tuple>();
    PendingKernel kernel;
    kernel.nodes = partition[0].cast<std::vector<int32_t>>();
    std::sort(kernel.nodes.begin(), kernel.nodes.end());
    kernel.executable = make_executable(*state, partition[1].cast<py::bytes>());
    kernel.recompile = recompile_function(state, partition[2]);
    pending.push_back(std::move(kernel));
  }
  return pending;
}

void prepare_or_throw(const StatePointer& state, Context* context, Delegate* delegate) {
  std::vector<PendingKernel> pending = compile(state, context);
  if (pending.empty()) return;
  std::vector<int32_t> nodes;
  for (const PendingKernel& kernel : pending) {
    nodes.insert(nodes.end(), kernel.nodes.begin(), kernel.nodes.end());
  }
  const IntArrayStorage array(nodes);
  const PendingScope scope(&pending);
  const Status status = context->replace_node_subsets_with_delegate_kernels(
      context, kernel_registration(), array.get(), delegate);
  if (!scope.error().empty()) throw std::runtime_error(scope.error());
  if (status != Status::kOk) throw std::runtime_error("the runtime refused the partitions");
}

Status prepare(Context* context, Delegate* delegate) {
  const StatePointer state = state_of(delegate);
  if (state == nullptr || Py_IsInitialized() == 0) return Status::kOk;
  const py::gil_scoped_acquire gil;
  std::string text;
  try {
    prepare_or_throw(state, context, delegate);
    return Status::kOk;
  } catch (const py::error_already_set& error) {
    text = error_text(error);
  } catch (const std::exception& error) {
    text = error.what();
  }
  report_error(context, "rk3588 delegate: " + text + "\n");
  return Status::kError;
}

Status inert_prepare(Context*, Delegate*) { return Status::kOk; }

// Owned by nobody on purpose, see the top of this file.
Delegate* make_delegate(StatePointer state) {
  auto delegate = std::make_unique<Delegate>();
  delegate->prepare = state == nullptr ? inert_prepare : prepare;
  delegate->flags = tflite::kAllowDynamicTensors | tflite::kRequirePropagatedShapes;
  if (state != nullptr) {
    delegate->data = std::make_unique<StatePointer>(std::move(state)).release();
  }
  return delegate.release();
}

StatePointer create_state(const char* const* keys, const char* const* values, size_t count) {
  py::dict options;
  for (size_t i = 0; i < count; ++i) options[decode(keys[i])] = decode(values[i]);
  auto state = std::make_shared<DelegateState>();
  const py::object session = import_plugin().attr("Session")(options);
  const py::object effective = session.attr("options");
  state->device = open_device(effective.attr("device").cast<std::string>());
  state->timeout_ms = effective.attr("timeout_ms").cast<uint32_t>();
  session.attr("device_name") = state->device->name();
  state->session = std::make_unique<PyHandle>(session);
  return state;
}

Delegate* create(const char* const* keys, const char* const* values, size_t count,
                 tflite::ReportError report) {
  std::string text;
  if (Py_IsInitialized() == 0) {
    text = "this process runs no Python, which compiles the model";
  } else {
    const py::gil_scoped_acquire gil;
    try {
      return make_delegate(create_state(keys, values, count));
    } catch (const py::error_already_set& error) {
      try {
        text = error_text(error);
      } catch (const py::error_already_set&) {
        text = error.what();
      }
    } catch (const std::exception& error) {
      text = error.what();
    }
  }
  if (report != nullptr) {
    report(text.c_str());
    return nullptr;
  }
  // Runtimes without a reporter crash on NULL: hand out a delegate that claims nothing.
  std::fprintf(stderr, "rk3588 delegate: %s; running on the CPU\n", text.c_str());
  return make_delegate(nullptr);
}

void destroy(Delegate* delegate) {
  if (delegate == nullptr) return;
  std::unique_ptr<StatePointer> state;
  {
    const std::lock_guard<std::mutex> lock(g_states_mutex);
    state.reset(static_cast<StatePointer*>(delegate->data));
    delegate->data = nullptr;
    delegate->prepare = inert_prepare;
  }
}

}  // namespace
}  // namespace rk3588

extern "C" {

// Python passes a C int for the number of options: the upper half of the register is undefined.
__attribute__((visibility("default"))) rk3588::tflite::Delegate* tflite_plugin_create_delegate(
    const char* const* keys, const char* const* values, size_t num_options,
    rk3588::tflite::ReportError report_error) {
  return rk3588::create(keys, values, static_cast<uint32_t>(num_options), report_error);
}

__attribute__((visibility("default"))) void tflite_plugin_destroy_delegate(
    rk3588::tflite::Delegate* delegate) {
  rk3588::destroy(delegate);
}

}  // extern "C"
