// Hooks for tests and benchmarks: conversions between the host's values and layouts and the
// device's.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
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

// A tensor at a partition's edge, with the room that its conversion needs.
struct Edge {
  Edge(Binding tensor) : binding(std::move(tensor)), between(bytes_between(binding)) {}

  void check(const Bytes& host, const Bytes& device) const {
    for (const Box& box : binding.boxes) {
      check_extent(binding, box, static_cast<uint64_t>(device.size()));
    }
    if (binding.host_bytes() != static_cast<size_t>(host.size())) {
      raise("UsageError", "an array of another size");
    }
  }

  Binding binding;
  std::vector<uint8_t> between;
};

// A tensor of so many elements, one box on the device. `size`: (height, width, channels) there;
// `fold` and `spread`: their members, or none.
Edge one_box(const std::string& element_name, int32_t elements, const std::array<uint32_t, 3>& size,
             uint64_t surface_stride_bytes, int8_t fill, const std::vector<uint32_t>& fold,
             const std::vector<uint64_t>& spread) {
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

// The least buffer that holds a tensor: also the step to a second image that it does not have.
size_t device_bytes(const Binding& binding) {
  uint64_t end = 0;
  for (const Box& box : binding.boxes) {
    const uint64_t extent = check_extent(binding, box, kMaxBufferBytes);
    end = std::max({end, extent, box.image_stride_bytes});
  }
  return end;
}

void edge_to_device(Edge& edge, const Bytes& host, Bytes device) {
  edge.check(host, device);
  to_device(edge.binding, quantize_rule(), host.data(), edge.between.data(), device.mutable_data());
}

void edge_from_device(Edge& edge, const Bytes& device, Bytes host) {
  edge.check(host, device);
  from_device(edge.binding, device.data(), edge.between.data(), host.mutable_data());
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

// A program's inputs and outputs.
std::pair<std::vector<Edge>, std::vector<Edge>> program_edges(const py::buffer& bytes) {
  const py::buffer_info info = bytes.request();
  const Program program = read_program(content(info));
  return {{program.inputs.begin(), program.inputs.end()},
          {program.outputs.begin(), program.outputs.end()}};
}

}  // namespace

void bind_layouts(py::module_& module) {
  py::class_<Edge>(module, "EdgeBox", "Hook of the conversion at edges.")
      .def(py::init(&one_box), py::arg("element"), py::arg("elements"), py::arg("size"),
           py::arg("surface_stride_bytes"), py::arg("fill"), py::arg("fold") = py::tuple(),
           py::arg("spread") = py::tuple())
      .def_property_readonly("name", [](const Edge& edge) { return edge.binding.name; })
      .def_property_readonly("shape", [](const Edge& edge) { return edge.binding.shape; })
      .def_property_readonly("element",
                             [](const Edge& edge) { return facts(edge.binding.element).name; })
      .def_property_readonly("host_bytes",
                             [](const Edge& edge) { return edge.binding.host_bytes(); })
      .def_property_readonly("device_bytes",
                             [](const Edge& edge) { return device_bytes(edge.binding); })
      .def("to_device", &edge_to_device, py::arg("host").noconvert(), py::arg("device").noconvert())
      .def("from_device", &edge_from_device, py::arg("device").noconvert(),
           py::arg("host").noconvert());
  module.def("program_edges", &program_edges, py::arg("program"),
             "The inputs and the outputs of a program.");
  module.def("to_half", &to_half_bytes, py::arg("host"), py::arg("portable"),
             "Test hook of the conversion of values.");
  module.def("from_half", &from_half_bytes, py::arg("device"), py::arg("portable"),
             "Test hook of the conversion of values.");
  module.def("quantize_rule", &quantize_rule_here, "Test hook of the conversion of values.");
  module.def("quantize", &quantize_bytes, py::arg("host"), py::arg("scale"), py::arg("zero_point"),
             py::arg("element"), py::arg("rule"), py::arg("portable"),
             "Test hook of the conversion of values.");
}

}  // namespace rk3588
