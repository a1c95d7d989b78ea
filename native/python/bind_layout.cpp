// Hooks for tests and benchmarks: conversions between the host's values and layouts and the
// device's.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "program/binding_check.h"
#include "program/binding_conversion.h"
#include "program/host_values.h"
#include "program/layout.h"

namespace py = pybind11;

namespace rk3588 {
namespace {

using Bytes = py::array_t<uint8_t, py::array::c_style>;

Element element_called(const std::string& name) {
  for (size_t i = 0; i < kElementCount; ++i) {
    if (kElements[i].name == name) return static_cast<Element>(i);
  }
  raise("UsageError", "no element type " + name);
}

// A tensor of so many elements, one box on the device. `size`: (height, width, channels) there;
// `fold` and `spread`: their members, or none.
Binding one_box(const std::string& element_name, int32_t elements,
                const std::array<uint32_t, 3>& size, uint64_t surface_stride_bytes, int8_t fill,
                const std::vector<uint32_t>& fold, const std::vector<uint64_t>& spread) {
  Box box;
  box.images = 1;
  std::tie(box.height, box.width, box.channels) = std::tie(size[0], size[1], size[2]);
  box.surface_stride_bytes = surface_stride_bytes;
  box.fill = fill;
  for (size_t i = 0; i < std::min(fold.size(), std::size(kFoldMembers)); ++i) {
    box.fold.*kFoldMembers[i] = fold[i];
  }
  box.is_spread = !spread.empty();
  for (size_t i = 0; i < std::min(spread.size(), std::size(kSpreadMembers)); ++i) {
    box.spread.*kSpreadMembers[i] = spread[i];
  }
  Binding binding;
  binding.tensor = 0;
  binding.shape = {elements};
  binding.element = element_called(element_name);
  const size_t pixel_bytes = image_layout(binding, box).pixel_bytes();
  box.surfaces = static_cast<uint32_t>((pixel_bytes + kAtomBytes - 1) / kAtomBytes);
  binding.boxes = {box};
  return binding;
}

std::vector<uint8_t> room_between(const Binding& binding, const Bytes& host, const Bytes& device) {
  check_extent(binding, binding.boxes.front(), static_cast<uint64_t>(device.size()));
  if (binding.host_bytes() != static_cast<size_t>(host.size())) {
    raise("UsageError", "an array of another size");
  }
  return std::vector<uint8_t>(bytes_between(binding));
}

void box_to_device(const Binding& binding, const Bytes& host, Bytes device) {
  std::vector<uint8_t> between = room_between(binding, host, device);
  to_device(binding, quantize_rule(), host.data(), between.data(), device.mutable_data());
}

void box_from_device(const Binding& binding, const Bytes& device, Bytes host) {
  std::vector<uint8_t> between = room_between(binding, host, device);
  from_device(binding, device.data(), between.data(), host.mutable_data());
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

uint64_t run_ns(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  const auto time = std::chrono::steady_clock::now() - start;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

constexpr size_t kTimed = 3;
using Times = std::array<uint64_t, kTimed>;

// Nanoseconds of the fastest of `repeats` runs of each, which take turns.
Times fastest(const std::array<std::function<void()>, kTimed>& bodies, size_t repeats) {
  Times best;
  best.fill(UINT64_MAX);
  for (size_t i = 0; i < repeats; ++i) {
    for (size_t kind = 0; kind < kTimed; ++kind) {
      best[kind] = std::min(best[kind], run_ns(bodies[kind]));
    }
  }
  return best;
}

// Of a tensor on the host to the device, back (what only inputs can have: nothing), and of a copy
// of the same host bytes. `device_bytes`: the end of its boxes.
Times time_binding(const Binding& binding, size_t device_bytes, size_t repeats) {
  std::vector<uint8_t> host(binding.host_bytes(), 1);
  std::vector<uint8_t> copy(host.size(), 2);
  std::vector<uint8_t> between(bytes_between(binding));
  std::vector<uint8_t> device(device_bytes, 3);
  const QuantizeRule rule = quantize_rule();
  volatile uint8_t seen = 0;
  const Box& box = binding.boxes.front();
  const bool is_packed = box.is_spread && facts(binding.laid_out()).bytes > 1;
  const bool is_output = binding.table.empty() && !box.is_folded() && !is_packed;
  return fastest({[&] { to_device(binding, rule, host.data(), between.data(), device.data()); },
                  [&] {
                    if (is_output) {
                      from_device(binding, device.data(), between.data(), host.data());
                    }
                  },
                  [&] {
                    std::memcpy(copy.data(), host.data(), host.size());
                    seen = copy[copy.size() / 2];
                  }},
                 repeats);
}

// `element_name`: the host's; fp32 is fp16 on the device.
Times time_layout(size_t pixels, size_t channels, const std::string& element_name, size_t repeats) {
  const std::array<uint32_t, 3> size = {1, static_cast<uint32_t>(pixels),
                                        static_cast<uint32_t>(channels)};
  const Binding binding = one_box(element_name, static_cast<int32_t>(pixels * channels), size,
                                  pixels * kAtomBytes, 0, {}, {});
  const Box& box = binding.boxes.front();
  return time_binding(binding, box.surfaces * box.surface_stride_bytes, repeats);
}

// (name, shape, host's element, bytes on the host, nanoseconds of its conversion, of a copy of the
// host's bytes), inputs first.
using TimedEdge =
    std::tuple<std::string, std::vector<int32_t>, std::string, size_t, uint64_t, uint64_t>;

std::vector<TimedEdge> time_edges(const py::bytes& bytes, size_t repeats) {
  const std::string_view content = bytes;
  const Program program =
      read_program({reinterpret_cast<const uint8_t*>(content.data()), content.size()});
  std::vector<TimedEdge> edges;
  for (const bool is_input : {true, false}) {
    const BufferId id = is_input ? BufferId::kInput : BufferId::kOutput;
    const size_t size = program.buffers[static_cast<size_t>(id)].size;
    for (const Binding& binding : is_input ? program.inputs : program.outputs) {
      const Times times = time_binding(binding, size, repeats);
      edges.emplace_back(binding.name, binding.shape, facts(binding.element).name,
                         binding.host_bytes(), times[is_input ? 0 : 1], times[2]);
    }
  }
  return edges;
}

}  // namespace

void bind_layouts(py::module_& module) {
  py::class_<Binding>(module, "EdgeBox", "Test hook of the layout conversion.")
      .def(py::init(&one_box), py::arg("element"), py::arg("elements"), py::arg("size"),
           py::arg("surface_stride_bytes"), py::arg("fill"), py::arg("fold") = py::tuple(),
           py::arg("spread") = py::tuple())
      .def("to_device", &box_to_device, py::arg("host").noconvert(), py::arg("device").noconvert())
      .def("from_device", &box_from_device, py::arg("device").noconvert(),
           py::arg("host").noconvert());
  module.def("to_half", &to_half_bytes, py::arg("host"), py::arg("portable"),
             "Test hook of the conversion of values.");
  module.def("from_half", &from_half_bytes, py::arg("device"), py::arg("portable"),
             "Test hook of the conversion of values.");
  module.def("quantize_rule", &quantize_rule_here, "Test hook of the conversion of values.");
  module.def("quantize", &quantize_bytes, py::arg("host"), py::arg("scale"), py::arg("zero_point"),
             py::arg("element"), py::arg("rule"), py::arg("portable"),
             "Test hook of the conversion of values.");
  module.def("time_layout", &time_layout, py::arg("pixels"), py::arg("channels"),
             py::arg("element"), py::arg("repeats"), "Times the layout conversion.");
  module.def("time_edges", &time_edges, py::arg("program"), py::arg("repeats"),
             "Times the conversion of a program's inputs and outputs.");
}

}  // namespace rk3588
