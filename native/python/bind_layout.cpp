// Hooks for tests and benchmarks: conversions between the host's values and layouts and the
// device's.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
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

// Bytes of a pixel of which there are whole elements.
size_t channels_of(py::ssize_t bytes, Element element) {
  const size_t size = facts(element).bytes;
  if (bytes < 1 || static_cast<size_t>(bytes) % size != 0) raise("UsageError", "no whole elements");
  return static_cast<size_t>(bytes) / size;
}

uint8_t* place_for(Bytes& array, size_t bytes) {
  if (static_cast<size_t>(array.size()) != bytes) raise("UsageError", "an array of another size");
  return array.mutable_data();
}

size_t surfaces_of(const ImageLayout& layout) {
  return (layout.pixel_bytes() + kAtomBytes - 1) / kAtomBytes;
}

// `host` is [pixels, bytes].
ImageLayout dense_layout(const Bytes& host, size_t surface_stride_bytes,
                         const std::string& element_name, int8_t fill) {
  if (host.ndim() != 2) raise("UsageError", "expected [pixels, bytes]");
  const Element element = element_called(element_name);
  const ImageLayout layout{static_cast<size_t>(host.shape(0)), channels_of(host.shape(1), element),
                           surface_stride_bytes, element, fill};
  if (surface_stride_bytes < layout.pixels * kAtomBytes) raise("UsageError", "stride too small");
  return layout;
}

void to_nc1hwc2(const Bytes& host, Bytes device, size_t surface_stride_bytes,
                const std::string& element_name, int8_t fill) {
  const ImageLayout layout = dense_layout(host, surface_stride_bytes, element_name, fill);
  uint8_t* place = place_for(device, surfaces_of(layout) * surface_stride_bytes);
  to_device_layout(layout, host.data(), static_cast<size_t>(host.size()), place);
}

void from_nc1hwc2(const Bytes& device, Bytes host, size_t surface_stride_bytes,
                  const std::string& element_name) {
  const ImageLayout layout = dense_layout(host, surface_stride_bytes, element_name, 0);
  if (static_cast<size_t>(device.size()) != surfaces_of(layout) * surface_stride_bytes) {
    raise("UsageError", "surfaces of another size");
  }
  from_device_layout(layout, device.data(), host.mutable_data(), static_cast<size_t>(host.size()));
}

// [height, width, bytes of a pixel] folded into [device_height][device_width] pixels; `fold` is
// (window_h, window_w, step_h, step_w, top, left).
void to_folded_nc1hwc2(const Bytes& host, Bytes device, const std::array<uint32_t, 6>& fold,
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
  if (lanes < 1 || lanes * facts(element).bytes > kMaxFoldedLanes || pixels < 1 || fold[2] < 1 ||
      fold[3] < 1) {
    raise("UsageError", "an impossible fold");
  }
  layout.device = {pixels, lanes, pixels * kAtomBytes, element, fill};
  uint8_t* place = place_for(device, surfaces_of(layout.device) * pixels * kAtomBytes);
  to_folded_layout(layout, host.data(), static_cast<size_t>(host.size()), place);
}

// `size`: (height, width, channels); `strides`: on the host from row to row, pixel to pixel,
// channel to channel. Its bytes end with the last element.
SpreadLayout spread_of(const Bytes& host, const Bytes& device, const std::array<size_t, 3>& size,
                       const std::array<size_t, 3>& strides, const std::string& element_name,
                       int8_t fill) {
  const auto& [height, width, channels] = size;
  size_t reach = 1;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] < 1) raise("UsageError", "an empty image");
    reach += (size[i] - 1) * strides[i];
  }
  const size_t pixels = height * width;
  const ImageLayout image{pixels, channels, pixels * kAtomBytes, element_called(element_name),
                          fill};
  if (facts(image.element).bytes != 1 || static_cast<size_t>(host.size()) != reach ||
      static_cast<size_t>(device.size()) != surfaces_of(image) * image.surface_stride_bytes) {
    raise("UsageError", "an impossible spread");
  }
  return {image, height, width, {0, 0, strides[0], strides[1], strides[2]}};
}

void to_spread(const Bytes& host, Bytes device, const std::array<size_t, 3>& size,
               const std::array<size_t, 3>& strides, const std::string& element_name, int8_t fill) {
  const SpreadLayout layout = spread_of(host, device, size, strides, element_name, fill);
  to_device_spread(layout, host.data(), device.mutable_data());
}

void from_spread(const Bytes& device, Bytes host, const std::array<size_t, 3>& size,
                 const std::array<size_t, 3>& strides, const std::string& element_name) {
  const SpreadLayout layout = spread_of(host, device, size, strides, element_name, 0);
  from_device_spread(layout, device.data(), host.mutable_data());
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

// Of a tensor on the host to the device, back (with a fold: nothing), and of a copy of the same
// host bytes. `device_bytes`: the end of its boxes.
Times time_binding(const Binding& binding, size_t device_bytes, size_t repeats) {
  std::vector<uint8_t> host(binding.host_bytes(), 1);
  std::vector<uint8_t> copy(host.size(), 2);
  std::vector<uint8_t> between(bytes_between(binding));
  std::vector<uint8_t> device(device_bytes, 3);
  const QuantizeRule rule = quantize_rule();
  volatile uint8_t seen = 0;
  const bool is_input = binding.boxes.size() == 1;
  const bool is_output = binding.table.empty() && !binding.boxes.front().is_folded();
  return fastest({[&] {
                    if (is_input) {
                      to_device(binding, rule, host.data(), between.data(), device.data());
                    }
                  },
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
  Box box;
  box.images = box.height = 1;
  box.width = static_cast<uint32_t>(pixels);
  box.channels = static_cast<uint32_t>(channels);
  box.surface_stride_bytes = pixels * kAtomBytes;
  Binding binding;
  binding.shape = {static_cast<int32_t>(pixels), static_cast<int32_t>(channels)};
  binding.element = element_called(element_name);
  binding.boxes = {box};
  return time_binding(binding, surfaces_of(image_layout(binding, box)) * box.surface_stride_bytes,
                      repeats);
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
  const char* hook = "Test hook of the layout conversion.";
  module.def("to_nc1hwc2", &to_nc1hwc2, py::arg("host").noconvert(), py::arg("device").noconvert(),
             py::arg("surface_stride_bytes"), py::arg("element"), py::arg("fill"), hook);
  module.def("from_nc1hwc2", &from_nc1hwc2, py::arg("device").noconvert(),
             py::arg("host").noconvert(), py::arg("surface_stride_bytes"), py::arg("element"),
             hook);
  module.def("to_folded_nc1hwc2", &to_folded_nc1hwc2, py::arg("host").noconvert(),
             py::arg("device").noconvert(), py::arg("fold"), py::arg("device_height"),
             py::arg("device_width"), py::arg("element"), py::arg("fill"), hook);
  module.def("to_spread", &to_spread, py::arg("host").noconvert(), py::arg("device").noconvert(),
             py::arg("size"), py::arg("strides"), py::arg("element"), py::arg("fill"), hook);
  module.def("from_spread", &from_spread, py::arg("device").noconvert(),
             py::arg("host").noconvert(), py::arg("size"), py::arg("strides"), py::arg("element"),
             hook);
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
