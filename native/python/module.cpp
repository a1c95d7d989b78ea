// The Python module delegate._native: bindings, nothing else.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings.h"
#include "gil.h"
#include "host/device.h"
#include "host/devices.h"
#include "host/private_files.h"
#include "host/run_stats.h"
#include "program/executable.h"
#include "program/program.h"
#include "sim/fault.h"
#include "tflite/file_pages.h"

namespace py = pybind11;

namespace rk3588 {
namespace {

py::object error_class(const char* name) {
  return py::module_::import("delegate.errors").attr(name);
}

// Calls `check`; raises ValueError where it refuses.
template <typename Check, typename... Arguments>
auto refuse_value(Check check, const Arguments&... arguments) {
  try {
    return check(arguments...);
  } catch (const std::runtime_error& error) {
    throw py::value_error(error.what());
  }
}

void raise_fault(const DeviceFault& error) {
  const sim::Fault& fault = error.fault;
  const bool unsupported = fault.kind == sim::fault::kUnsupportedFeature;
  const py::object type = error_class(unsupported ? "UnsupportedByDevice" : "SimulatorFault");
  const py::object value =
      type(error.what(), fault.kind, fault.unit, fault.reg, fault.task, fault.layer);
  PyErr_SetObject(type.ptr(), value.ptr());
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const DeviceFault& fault) {
    raise_fault(fault);
  } catch (const DeviceError& error) {
    py::set_error(error_class("DeviceError"), error.what());
  } catch (const ProgramError& error) {
    py::set_error(error_class("ProgramError"), error.what());
  }
}

py::dtype dtype_of(const Binding& binding) {
  static constexpr const char* kTypes[] = {"u1", "i1", "<i2", "<i4", "<f2", "<f4"};
  static_assert(sizeof(kTypes) / sizeof(kTypes[0]) == kElementCount);
  return py::dtype(kTypes[static_cast<size_t>(binding.element)]);
}

py::tuple describe(const std::vector<Binding>& bindings) {
  py::tuple result(bindings.size());
  for (size_t i = 0; i < bindings.size(); ++i) {
    const Binding& binding = bindings[i];
    result[i] = py::make_tuple(binding.tensor, binding.name, py::tuple(py::cast(binding.shape)),
                               dtype_of(binding));
  }
  return result;
}

py::array checked_input(const Binding& binding, const py::array& array) {
  const bool same_shape = static_cast<size_t>(array.ndim()) == binding.shape.size() &&
                          std::equal(binding.shape.begin(), binding.shape.end(), array.shape());
  if (!same_shape || !array.dtype().equal(dtype_of(binding))) {
    raise("UsageError", "input " + binding.name + " must be " +
                            py::str(dtype_of(binding)).cast<std::string>() + " of shape " +
                            py::str(py::tuple(py::cast(binding.shape))).cast<std::string>());
  }
  return py::array::ensure(array, py::array::c_style);
}

py::list run(Executable& executable, const std::vector<py::array>& arrays) {
  const auto& inputs = executable.inputs();
  if (arrays.size() != inputs.size()) {
    raise("UsageError", "the program takes " + std::to_string(inputs.size()) + " inputs, not " +
                            std::to_string(arrays.size()));
  }
  std::vector<py::array> held;
  std::vector<const uint8_t*> sources;
  for (size_t i = 0; i < inputs.size(); ++i) {
    held.push_back(checked_input(inputs[i], arrays[i]));
    sources.push_back(static_cast<const uint8_t*>(held.back().data()));
  }
  py::list results;
  std::vector<uint8_t*> targets;
  for (const Binding& binding : executable.outputs()) {
    py::array output(dtype_of(binding), binding.shape);
    targets.push_back(static_cast<uint8_t*>(output.mutable_data()));
    results.append(output);
  }
  {
    const GilRelease release;
    executable.run(sources, targets);
  }
  return results;
}

py::list run_log_entries() {
  py::list result;
  for (const RunEntry& entry : take_run_log()) {
    const RunTimes& times = entry.times;
    result.append(py::make_tuple(entry.name, times.start, times.converted, times.submitted,
                                 times.done, times.end));
  }
  return result;
}

py::tuple run_stats() {
  const RunStats stats = RunStatsHome::of_process()->take();
  py::list programs;
  for (const ProgramStats& program : stats.programs) {
    programs.append(py::make_tuple(program.key.device, program.key.program, program.key.output,
                                   py::tuple(py::cast(program.counts))));
  }
  return py::make_tuple(stats.inferences, stats.between_ns, stats.verified, stats.differences,
                        programs);
}

std::unique_ptr<Executable> make_executable(const py::buffer& program, const std::string& device,
                                            uint32_t timeout_ms, const std::string& cores,
                                            bool verify, unsigned threads) {
  const py::buffer_info info = program.request();
  return std::make_unique<Executable>(
      content(info), RunSettings{open_device(device, {cores, false}), timeout_ms,
                                 verify ? make_simulator_device() : nullptr, threads, nullptr, 0});
}

}  // namespace

void raise(const char* error, const std::string& text) {
  py::set_error(error_class(error), text.c_str());
  throw py::error_already_set();
}

static void bind_executable(py::module_& module) {
  py::class_<Executable>(module, "Executable",
                         "A serialised Program on a device. Raises ProgramError, DeviceError.")
      .def(py::init(&make_executable), py::arg("program"), py::arg("device") = "auto",
           py::arg("timeout_ms") = 0, py::arg("cores") = "auto", py::arg("verify") = false,
           py::arg("threads") = 0)
      .def("run", &run, py::arg("inputs"),
           "Dense NHWC arrays in the order of `inputs`; one submit; without the GIL.")
      .def_property_readonly("name", &Executable::name)
      .def_property_readonly("device_name",
                             [](const Executable& self) { return self.device().name(); })
      .def_property_readonly(
          "inputs", [](const Executable& self) { return describe(self.inputs()); },
          "(tensor, name, shape, dtype) each.")
      .def_property_readonly(
          "outputs", [](const Executable& self) { return describe(self.outputs()); },
          "(tensor, name, shape, dtype) each.");
  module.def(
      "check_program",
      [](const py::buffer& program) {
        const py::buffer_info info = program.request();
        static_cast<void>(read_program(content(info)));
      },
      py::arg("program"), "Raises ProgramError unless a device could take the serialised Program.");
  module.def("submit_count", &submit_count, "Submits of this process so far.");
}

// The log and the counters of this process's runs.
static void bind_runs(py::module_& module) {
  module.def("start_run_log", &start_run_log, py::arg("capacity"),
             "Times the phases of up to `capacity` runs of this process from now on.");
  module.def("take_run_log", &run_log_entries,
             "Stops timing; (name, start, converted, submitted or 0, done, end) in ns each.");
  module.def("run_stats", &run_stats,
             "What kernels of this process did: (inferences, between_ns, verified, differences, "
             "programs), of each program (device, name, output, counts as in run_stats.h).");
  module.def(
      "prometheus_text", [] { return prometheus_text(RunStatsHome::of_process()->take(), ""); },
      "The same in Prometheus' text format.");
  module.def(
      "stats_line", [] { return stats_line(RunStatsHome::of_process()->take()); },
      "The same as a line for a log, \"\" if nothing ran.");
}

static void bind_memory(py::module_& module) {
  module.def(
      "private_folder",
      [](const std::string& folder) { return py::bytes(refuse_value(private_folder, folder)); },
      py::arg("folder"),
      "Returns the folder without links. Raises ValueError unless only this user and root can put, "
      "replace or rename files there.");
  module.def(
      "check_private_file",
      [](int descriptor, const std::string& path) {
        refuse_value(check_private_file, descriptor, path);
      },
      py::arg("descriptor"), py::arg("path"),
      "Raises ValueError unless only this user and root can have written the open file.");
  module.def(
      "release_memory",
      [](const std::vector<py::buffer>& constants) {
        for (const py::buffer& constant : constants) {
          const py::buffer_info info = constant.request();
          release_file_pages(content(info));
        }
        release_freed_memory();
      },
      py::arg("constants"),
      "Gives freed memory back to the system, and the pages of `constants` that are of a file.");
}

}  // namespace rk3588

PYBIND11_MODULE(_native, module) {
  module.doc() = "Native part of the RK3588 delegate: programs, devices, layouts, the plugin.";
  py::register_local_exception_translator(rk3588::translate);
  rk3588::bind_executable(module);
  rk3588::bind_runs(module);
  rk3588::bind_memory(module);
  rk3588::bind_layouts(module);
  rk3588::bind_devices(module);
  rk3588::bind_simulator(module);
}
