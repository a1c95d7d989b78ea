// The Python module delegate._native: bindings, nothing else.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bind_device.h"
#include "bind_sim.h"
#include "host/device.h"
#include "host/device_fault.h"
#include "host/devices.h"
#include "host/private_files.h"
#include "host/run_log.h"
#include "host/run_stats.h"
#include "program/executable.h"
#include "program/host_values.h"
#include "program/layout.h"
#include "program/program.h"
#include "sim/fault.h"
#include "tflite/file_pages.h"
#include "time_layout.h"

namespace py = pybind11;

namespace rk3588 {
namespace {

using Bytes = py::array_t<uint8_t, py::array::c_style>;

py::object error_class(const char* name) {
  return py::module_::import("delegate.errors").attr(name);
}

[[noreturn]] void raise(const char* error, const std::string& text) {
  py::set_error(error_class(error), text.c_str());
  throw py::error_already_set();
}

// What `check` refuses is a ValueError.
template <typename Check, typename... Arguments>
void refuse_value(Check check, const Arguments&... arguments) {
  try {
    check(arguments...);
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

Span<const uint8_t> view(const py::bytes& bytes) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes.ptr(), &data, &size) != 0) throw py::error_already_set();
  return {reinterpret_cast<const uint8_t*>(data), static_cast<size_t>(size)};
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
    const py::gil_scoped_release release;
    executable.run(sources, targets);
  }
  return results;
}

py::list run_log_entries() {
  py::list result;
  for (const RunEntry& entry : take_run_log()) {
    const rk3588::RunTimes& times = entry.times;
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

std::unique_ptr<Executable> make_executable(const py::bytes& program, const std::string& device,
                                            uint32_t timeout_ms, const std::string& cores,
                                            bool verify, unsigned threads) {
  return std::make_unique<Executable>(
      view(program), RunSettings{open_device(device, {cores, false}), timeout_ms,
                                 verify ? make_simulator_device() : nullptr, threads, nullptr, 0});
}

Element element_called(const std::string& name) {
  for (size_t i = 0; i < kElementCount; ++i) {
    if (kElements[i].name == name) return static_cast<Element>(i);
  }
  raise("UsageError", "no element type " + name);
}

// Bytes of a pixel of which there are whole elements.
size_t channels_of(py::ssize_t bytes, Element element) {
  const size_t size = facts(element).bytes;
  if (bytes < 1 || static_cast<size_t>(bytes) % size != 0) raise("UsageError", "no whole elements");
  return static_cast<size_t>(bytes) / size;
}

// [pixels, bytes] to the surfaces that to_device_layout writes, `gap` (0xaa) elsewhere.
constexpr uint8_t kUntouched = 0xaa;

Bytes to_nc1hwc2(const Bytes& host, size_t surface_stride_bytes, const std::string& element_name,
                 int8_t fill) {
  if (host.ndim() != 2) raise("UsageError", "expected [pixels, bytes]");
  const Element element = element_called(element_name);
  const ImageLayout layout{static_cast<size_t>(host.shape(0)), channels_of(host.shape(1), element),
                           surface_stride_bytes, element, fill};
  if (surface_stride_bytes < layout.pixels * kAtomBytes) raise("UsageError", "stride too small");
  const size_t surfaces = (layout.pixel_bytes() + kAtomBytes - 1) / kAtomBytes;
  Bytes device(static_cast<py::ssize_t>(surfaces * surface_stride_bytes));
  std::fill_n(device.mutable_data(), device.size(), kUntouched);
  to_device_layout(layout, host.data(), static_cast<size_t>(host.size()), device.mutable_data());
  return device;
}

// [height, width, bytes of a pixel] folded into [device_height][device_width] pixels; `fold` is
// (window_h, window_w, step_h, step_w, top, left).
Bytes to_folded_nc1hwc2(const Bytes& host, const std::array<uint32_t, 6>& fold,
                        size_t device_height, size_t device_width, const std::string& element_name,
                        int8_t fill) {
  if (host.ndim() != 3 || host.size() < 1) raise("UsageError", "expected [height, width, bytes]");
  const Element element = element_called(element_name);
  FoldLayout layout;
  layout.height = device_height;
  layout.width = device_width;
  layout.fold = {static_cast<uint32_t>(host.shape(0)),
                 static_cast<uint32_t>(host.shape(1)),
                 static_cast<uint32_t>(channels_of(host.shape(2), element)),
                 fold[0],
                 fold[1],
                 fold[2],
                 fold[3],
                 fold[4],
                 fold[5]};
  const size_t lanes = size_t{fold[0]} * fold[1] * layout.fold.channels;
  const size_t pixels = device_height * device_width;
  const size_t bytes = lanes * facts(element).bytes;
  if (lanes < 1 || bytes > kMaxFoldedLanes || pixels < 1 || fold[2] < 1 || fold[3] < 1) {
    raise("UsageError", "an impossible fold");
  }
  layout.device = {pixels, lanes, pixels * kAtomBytes, element, fill};
  const size_t surfaces = (bytes + kAtomBytes - 1) / kAtomBytes;
  Bytes device(static_cast<py::ssize_t>(surfaces * pixels * kAtomBytes));
  to_folded_layout(layout, host.data(), static_cast<size_t>(host.size()), device.mutable_data());
  return device;
}

// float32 as the device's fp16, or back; `portable`: without the processor's instructions for it.
Bytes to_half_bytes(const Bytes& host, bool portable) {
  const auto count = static_cast<size_t>(host.size()) / sizeof(float);
  Bytes device(static_cast<py::ssize_t>(count * sizeof(uint16_t)));
  (portable ? to_half_portable : to_half)(host.data(), count, device.mutable_data());
  return device;
}

Bytes from_half_bytes(const Bytes& device, bool portable) {
  const auto count = static_cast<size_t>(device.size()) / sizeof(uint16_t);
  Bytes host(static_cast<py::ssize_t>(count * sizeof(float)));
  (portable ? from_half_portable : from_half)(device.data(), count, host.mutable_data());
  return host;
}

Bytes quantize_bytes(const Bytes& host, float scale, int32_t zero_point, const std::string& element,
                     std::pair<bool, bool> rule, bool portable) {
  const Affine affine{scale, zero_point, element_called(element)};
  const auto count = static_cast<size_t>(host.size()) / sizeof(float);
  Bytes device(static_cast<py::ssize_t>(count));
  (portable ? quantize_portable : quantize)(affine, {rule.first, rule.second}, host.data(), count,
                                            device.mutable_data());
  return device;
}

std::pair<bool, bool> quantize_rule_here() {
  const QuantizeRule rule = quantize_rule();
  return {rule.multiplies, rule.saturates};
}

Bytes from_nc1hwc2(const Bytes& device, size_t pixels, size_t channels, size_t surface_stride_bytes,
                   const std::string& element_name) {
  const ImageLayout layout{pixels, channels, surface_stride_bytes, element_called(element_name), 0};
  const size_t surfaces = (layout.pixel_bytes() + kAtomBytes - 1) / kAtomBytes;
  if (channels < 1 || surface_stride_bytes < pixels * kAtomBytes ||
      static_cast<size_t>(device.size()) < surfaces * surface_stride_bytes) {
    raise("UsageError", "the surfaces are smaller than the shape");
  }
  Bytes host({pixels, layout.pixel_bytes()});
  from_device_layout(layout, device.data(), host.mutable_data(), static_cast<size_t>(host.size()));
  return host;
}

}  // namespace
}  // namespace rk3588

PYBIND11_MODULE(_native, module) {
  using rk3588::Executable;
  module.doc() = "Native part of the RK3588 delegate: programs, devices, layouts, the plugin.";
  py::register_local_exception_translator(rk3588::translate);
  py::class_<Executable>(module, "Executable",
                         "A serialised Program on a device. Raises ProgramError, DeviceError.")
      .def(py::init(&rk3588::make_executable), py::arg("program"), py::arg("device") = "auto",
           py::arg("timeout_ms") = 0, py::arg("cores") = "auto", py::arg("verify") = false,
           py::arg("threads") = 0)
      .def("run", &rk3588::run, py::arg("inputs"),
           "Dense NHWC arrays in the order of `inputs`; one submit; without the GIL.")
      .def_property_readonly("name", &Executable::name)
      .def_property_readonly("device_name",
                             [](const Executable& self) { return self.device().name(); })
      .def_property_readonly(
          "inputs", [](const Executable& self) { return rk3588::describe(self.inputs()); },
          "(tensor, name, shape, dtype) each.")
      .def_property_readonly(
          "outputs", [](const Executable& self) { return rk3588::describe(self.outputs()); },
          "(tensor, name, shape, dtype) each.");
  module.def(
      "check_program",
      [](const py::buffer& program) {
        const py::buffer_info info = program.request();
        static_cast<void>(rk3588::read_program({static_cast<const uint8_t*>(info.ptr),
                                                static_cast<size_t>(info.size * info.itemsize)}));
      },
      py::arg("program"), "Raises ProgramError unless a device could take the serialised Program.");
  module.def(
      "check_private_folder",
      [](const std::string& folder) { rk3588::refuse_value(rk3588::check_private_folder, folder); },
      py::arg("folder"),
      "Raises ValueError unless only this user and root can put, replace or rename files there.");
  module.def(
      "check_private_file",
      [](int descriptor, const std::string& path) {
        rk3588::refuse_value(rk3588::check_private_file, descriptor, path);
      },
      py::arg("descriptor"), py::arg("path"),
      "Raises ValueError unless only this user and root can have written the open file.");
  module.def(
      "release_memory",
      [](const std::vector<py::buffer>& constants) {
        for (const py::buffer& constant : constants) {
          const py::buffer_info info = constant.request();
          rk3588::release_file_pages({static_cast<const uint8_t*>(info.ptr),
                                      static_cast<size_t>(info.size * info.itemsize)});
        }
        rk3588::release_freed_memory();
      },
      py::arg("constants"),
      "Gives freed memory back to the system, and the pages of `constants` that are of a file.");
  module.def("submit_count", &rk3588::submit_count, "Submits of this process so far.");
  module.def("start_run_log", &rk3588::start_run_log, py::arg("capacity"),
             "Times the phases of up to `capacity` runs of this process from now on.");
  module.def("take_run_log", &rk3588::run_log_entries,
             "Stops timing; (name, start, converted, submitted or 0, done, end) in ns each.");
  module.def("run_stats", &rk3588::run_stats,
             "What kernels of this process did: (inferences, between_ns, verified, differences, "
             "programs), of each program (device, name, output, counts as in run_stats.h).");
  module.def(
      "prometheus_text",
      [] { return rk3588::prometheus_text(rk3588::RunStatsHome::of_process()->take(), ""); },
      "The same in Prometheus' text format.");
  module.def(
      "stats_line", [] { return rk3588::stats_line(rk3588::RunStatsHome::of_process()->take()); },
      "The same as a line for a log, \"\" if nothing ran.");
  module.def(
      "open_device_name",
      [](const std::string& device, bool strict) {
        return rk3588::open_device(device, {"auto", strict})->name();
      },
      py::arg("device") = "auto", py::arg("strict") = false,
      "Name of the device that `device` opens. Raises DeviceError.");
  module.def("find_npu_node", &rk3588::find_npu_node, py::arg("root") = "/",
             "Path of the node that device=auto takes, or \"\".");
  module.def("to_nc1hwc2", &rk3588::to_nc1hwc2, py::arg("host"), py::arg("surface_stride_bytes"),
             py::arg("element"), py::arg("fill"), "Test hook of the layout conversion.");
  module.def(
      "time_layout",
      [](size_t pixels, size_t channels, const std::string& element, size_t repeats) {
        return rk3588::time_layout(pixels, channels, rk3588::element_called(element), repeats);
      },
      py::arg("pixels"), py::arg("channels"), py::arg("element"), py::arg("repeats"),
      "Times the layout conversion.");
  module.def("to_folded_nc1hwc2", &rk3588::to_folded_nc1hwc2, py::arg("host"), py::arg("fold"),
             py::arg("device_height"), py::arg("device_width"), py::arg("element"), py::arg("fill"),
             "Test hook of the folding conversion.");
  module.def("from_nc1hwc2", &rk3588::from_nc1hwc2, py::arg("device"), py::arg("pixels"),
             py::arg("channels"), py::arg("surface_stride_bytes"), py::arg("element"),
             "Test hook of the layout conversion.");
  module.def("to_half", &rk3588::to_half_bytes, py::arg("host"), py::arg("portable"),
             "Test hook of the conversion of values.");
  module.def("from_half", &rk3588::from_half_bytes, py::arg("device"), py::arg("portable"),
             "Test hook of the conversion of values.");
  module.def("quantize_rule", &rk3588::quantize_rule_here,
             "Test hook of the conversion of values.");
  module.def("quantize", &rk3588::quantize_bytes, py::arg("host"), py::arg("scale"),
             py::arg("zero_point"), py::arg("element"), py::arg("rule"), py::arg("portable"),
             "Test hook of the conversion of values.");
  bind_devices(module);
  bind_simulator(module);
}
