// The external delegate's two C functions in a Python process: asks Python to compile, installs
// kernels.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.h"
#include "evidence/form_evidence.h"
#include "gil.h"
#include "host/device.h"
#include "host/devices.h"
#include "host/library_path.h"
#include "program/executable.h"
#include "snapshot.h"
#include "tflite/compiled_operator.h"
#include "tflite/delegate_kernel.h"
#include "tflite/delegate_object.h"
#include "tflite/file_pages.h"
#include "tflite/graph_access.h"
#include "tflite/tflite_abi.h"

namespace py = pybind11;

namespace rk3588 {
namespace {

using tflite::Context;
using tflite::Delegate;
using tflite::DelegateParams;
using tflite::IntArray;
using tflite::Status;

// Constants below this size are not worth looking up where they lie.
constexpr size_t kReleasedBytes = 64u << 10;

// A Python object that may be dropped anywhere, also after Python is gone.
class PyHandle {
 public:
  explicit PyHandle(py::object object) : object_(std::move(object)) {}
  ~PyHandle() {
    if (Py_IsInitialized() == 0) {
      static_cast<void>(object_.release());
      return;
    }
    const GilAcquire gil;
    PyObject* object = object_.release().ptr();
    or_park([object] { Py_XDECREF(object); });
  }
  PyHandle(const PyHandle&) = delete;
  PyHandle& operator=(const PyHandle&) = delete;
  const py::object& get() const { return object_; }

 private:
  py::object object_;
};

// One line for the user: the text of the project's own errors, type and text of others.
std::string error_text(const py::error_already_set& error) {
  if (error.matches(PyExc_KeyboardInterrupt)) {
    PyErr_SetInterrupt();  // raised again once the runtime has returned to Python
    return "interrupted";
  }
  PyObject* said = or_park([&] { return PyObject_Str(error.value().ptr()); });
  if (said == nullptr) throw py::error_already_set();
  const auto text = py::reinterpret_steal<py::str>(said).cast<std::string>();
  const py::object base = import_module("delegate.errors").attr("DelegateError");
  if (error.matches(base)) return text;
  return "internal error: " + py::type::of(error.value()).attr("__name__").cast<std::string>() +
         ": " + text;
}

// The package may be absent from sys.path when the library is loaded by path alone.
py::object import_plugin() {
  try {
    return import_module("delegate.compile.plugin");
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ModuleNotFoundError)) throw;
  }
  call(import_module("sys").attr("path").attr("append"), package_parent());
  return import_module("delegate.compile.plugin");
}

// Bytes that are no UTF-8 become what Options refuses.
py::str decode(const char* bytes) {
  const std::string_view view = bytes == nullptr ? "" : bytes;
  PyObject* text =
      PyUnicode_DecodeUTF8(view.data(), static_cast<Py_ssize_t>(view.size()), "surrogateescape");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

// The partitions that the runtime would make of `nodes`: (nodes, inputs, outputs), constants left
// out.
std::vector<std::tuple<std::vector<int32_t>, std::vector<int32_t>, std::vector<int32_t>>> preview(
    Context* context, const std::vector<int32_t>& nodes) {
  if (nodes.empty()) return {};
  const std::string disorder = plan_disorder(context);
  if (!disorder.empty()) throw std::runtime_error("the nodes are out of order: " + disorder);
  DelegateParams* params = nullptr;
  int32_t count = 0;
  const CArray array = c_array(nodes);
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

// The device has its own copy of the constants of `nodes`: the model's file need not stay in
// memory.
void release_constants(Context& context, const std::vector<int32_t>& nodes) {
  for (const int32_t node : nodes) {
    for (const Span<const uint8_t> bytes : constants_of(&context, node)) {
      if (bytes.size() >= kReleasedBytes) release_file_pages(bytes);
    }
  }
}

// Tensors that `nodes` write.
std::vector<int32_t> results_of(Context& context, const std::vector<int32_t>& nodes) {
  std::vector<int32_t> result;
  for (const int32_t index : nodes) {
    const IntArray& outputs = *operation_at(&context, index).node->outputs;
    result.insert(result.end(), outputs.begin(), outputs.end());
  }
  return result;
}

// A delegate whose graphs delegate.compile.plugin.Session compiles.
class PythonSession : public Session {
 public:
  // Needs the GIL. Throws py::error_already_set, DeviceError.
  explicit PythonSession(const py::dict& options)
      : session_(call(import_plugin().attr("Session"), options)),
        streams_(open_chosen(session_.get().attr("options"))) {
    const py::object& session = session_.get();
    const py::object effective = session.attr("options");
    timeout_ms_ = effective.attr("timeout_ms").cast<uint32_t>();
    const auto verify = effective.attr("verify").cast<std::string>();
    evidence_ = {verify == "off" ? "off" : "auto", effective.attr("cache_dir").cast<std::string>(),
                 effective.attr("cores").cast<std::string>(), timeout_ms_};
    if (verify == "sim" || verify == "sample") verifier_ = make_simulator_device();
    if (verify == "sample") verify_every_ = kSampledRuns;
    session.attr("device_name") = streams_.name();
    call(session.attr("adopt_chip"), std::string(streams_.chip().name));
    const auto stats_dir = effective.attr("stats_dir").cast<std::string>();
    if (stats_dir != "off") RunStatsHome::publish_in(stats_dir);
    const std::string problem = take_keeper_problem();
    if (!problem.empty()) say("info", problem);
  }

  void prepare(Context* context, Delegate* delegate) override {
    if (Py_IsInitialized() == 0) return;
    // A model compiled ahead of time runs as it was compiled: nothing is added to it.
    // The partitions of one interpreter run one after the other, those of several at once.
    std::shared_ptr<Device> device = streams_.next();
    const std::shared_ptr<FormEvidence> evidence = FormEvidence::of(device, evidence_, &warn);
    const RunSettings settings{std::move(device),  timeout_ms_, verifier_,
                               context->threads(), evidence,    verify_every_};
    const Claim claim = install_compiled_operators(context, delegate, settings);
    const GilAcquire gil;
    try {
      if (claim.claimed > 0) {
        call(session_.get().attr("announce_compiled"), claim.claimed, claim.total);
      } else {
        std::vector<PendingKernel> pending = compile(context, settings, evidence);
        for (const PendingKernel& kernel : pending) release_constants(*context, kernel.nodes);
        release_freed_memory();
        install_kernels(context, delegate, std::move(pending));
      }
    } catch (const py::error_already_set& error) {
      throw std::runtime_error(error_text(error));
    }
  }

 private:
  static std::shared_ptr<Device> open_chosen(const py::object& options) {
    return open_device(
        options.attr("device").cast<std::string>(),
        {options.attr("cores").cast<std::string>(), options.attr("strict").cast<bool>(),
         options.attr("chip").cast<std::string>()});
  }

  // To Python's log, with or without the GIL.
  static void say(const char* level, const std::string& text) {
    const GilAcquire gil;
    const py::object logger = call(import_module("delegate.log").attr("get_logger"));
    call(logger.attr(level), "%s", text);
  }
  static void warn(const std::string& text) { say("warning", text); }

  // Makes the function that names what a program uses and this board must not be given, with
  // reasons. It runs unknown programs.
  static py::cpp_function missing_function(const std::shared_ptr<FormEvidence>& evidence) {
    return py::cpp_function([evidence](const py::buffer& program) {
      if (evidence == nullptr) return std::vector<MissingForm>();
      const py::buffer_info info = program.request();
      const GilRelease release;
      return evidence->missing(read_program(content(info)));
    });
  }

  // Compiles what can be compiled. Throws.
  std::vector<PendingKernel> compile(Context* context, const RunSettings& settings,
                                     const std::shared_ptr<FormEvidence>& evidence) {
    auto alive = std::make_shared<Context*>(context);
    const auto expire = [](Context** pointer) { *pointer = nullptr; };
    const std::unique_ptr<Context*, decltype(expire)> guard(alive.get(), expire);
    const auto sizes = call(session_.get().attr("option_bytes")).cast<OptionSizes>();
    const py::object compiled =
        call(session_.get().attr("prepare"), snapshot_context(context, sizes),
             preview_function(alive), missing_function(evidence));
    // Before the device takes its share.
    release_freed_memory();
    std::vector<PendingKernel> pending;
    for (const py::handle item : compiled) {
      const auto partition = item.cast<py::tuple>();
      PendingKernel kernel;
      kernel.nodes = partition[0].cast<std::vector<int32_t>>();
      std::sort(kernel.nodes.begin(), kernel.nodes.end());
      const py::buffer_info program = partition[1].cast<py::buffer>().request();
      if (program.size > 0) {
        RunSettings spending = settings;
        // Memory of its own, handed over (delegate.compile.plugin.Prepared).
        if (!program.readonly) spending.spend = &release_own_pages;
        kernel.executable = std::make_unique<Executable>(content(program), spending);
      }
      kernel.recompile = recompile_function(settings, partition[2]);
      const auto holders = partition[3].cast<std::vector<int32_t>>();
      kernel.folded = results_of(*context, holders);
      std::vector<int32_t> readers = kernel.nodes;
      readers.insert(readers.end(), holders.begin(), holders.end());
      kernel.constants = WatchedConstants(context, readers);
      pending.push_back(std::move(kernel));
    }
    introduce_kernels(context, &pending);
    return pending;
  }

  // Called from a kernel's prepare, with or without the GIL. A kernel may outlive the delegate.
  static Recompile recompile_function(const RunSettings& settings, py::object callable) {
    auto handle = std::make_shared<PyHandle>(std::move(callable));
    return [settings, handle](Context* context) {
      const GilAcquire gil;
      const auto result = std::make_shared<Recompiled>();
      const py::cpp_function upload([result, settings](const py::buffer& program) {
        result->executable = std::make_unique<Executable>(content(program.request()), settings);
      });
      try {
        result->shapes = call(handle->get(), snapshot_tensors(*context), upload).cast<Shapes>();
        return std::move(*result);
      } catch (const py::error_already_set& error) {
        throw std::runtime_error(error_text(error));
      }
    };
  }

  PyHandle session_;
  DeviceStreams streams_;
  std::shared_ptr<Device> verifier_;
  uint32_t timeout_ms_ = 0;
  uint32_t verify_every_ = 0;
  EvidenceSettings evidence_;
};

// Throws py::error_already_set and others. Needs the GIL.
Delegate* create_or_throw(const char* const* keys, const char* const* values, size_t count) {
  py::dict options;
  for (size_t i = 0; i < count; ++i) options[decode(keys[i])] = decode(values[i]);
  return make_delegate(std::make_shared<PythonSession>(options));
}

Delegate* create(const char* const* keys, const char* const* values, size_t count,
                 tflite::ReportError report) {
  if (Py_IsInitialized() == 0) {
    return refuse_delegate("this process runs no Python, which compiles the model", report);
  }
  std::string text;
  {
    const GilAcquire gil;
    try {
      return create_or_throw(keys, values, count);
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
  return refuse_delegate(text, report);
}

void destroy(Delegate* delegate) { destroy_delegate(delegate); }

}  // namespace
}  // namespace rk3588

#include "tflite/plugin_entry.inc"
