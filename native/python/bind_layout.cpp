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

uint64_t run_ns(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  const auto time = std::chrono::steady_clock::now() - start;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

// Nanoseconds of the fastest of `repeats` runs, which take turns: of a tensor on the host to the
// device, back, and of a copy of the same host bytes. `element_name`: the host's; fp32 is fp16 on
// the device.
std::tuple<uint64_t, uint64_t, uint64_t> time_layout(size_t pixels, size_t channels,
                                                     const std::string& element_name,
                                                     size_t repeats) {
  Box box;
  box.images = box.height = 1;
  box.width = static_cast<uint32_t>(pixels);
  box.channels = static_cast<uint32_t>(channels);
  box.surface_stride_bytes = pixels * kAtomBytes;
  Binding binding;
  binding.shape = {static_cast<int32_t>(pixels), static_cast<int32_t>(channels)};
  binding.element = element_called(element_name);
  binding.boxes = {box};
  const size_t pixel_bytes = image_layout(binding, box).pixel_bytes();
  const size_t surfaces = (pixel_bytes + kAtomBytes - 1) / kAtomBytes;
  std::vector<uint8_t> host(binding.host_bytes(), 1);
  std::vector<uint8_t> copy(host.size(), 2);
  std::vector<uint8_t> between(bytes_between(binding));
  std::vector<uint8_t> device(surfaces * box.surface_stride_bytes, 3);
  const QuantizeRule rule = quantize_rule();
  volatile uint8_t seen = 0;
  const std::function<void()> bodies[] = {
      [&] { to_device(binding, rule, host.data(), between.data(), device.data()); },
      [&] { from_device(binding, device.data(), between.data(), host.data()); },
      [&] {
        std::memcpy(copy.data(), host.data(), host.size());
        seen = copy[copy.size() / 2];
      }};
  uint64_t best[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
  for (size_t i = 0; i < repeats; ++i) {
    for (size_t kind = 0; kind < 3; ++kind) best[kind] = std::min(best[kind], run_ns(bodies[kind]));
  }
  return {best[0], best[1], best[2]};
}

}  // namespace

void bind_layouts(py::module_& module) {
  const char* hook = "Test hook of the layout conversion.";
  module.def("to_nc1hwc2", &to_nc1hwc2, py::arg("host"), py::arg("surface_stride_bytes"),
             py::arg("element"), py::arg("fill"), hook);
  module.def("to_folded_nc1hwc2", &to_folded_nc1hwc2, py::arg("host"), py::arg("fold"),
             py::arg("device_height"), py::arg("device_width"), py::arg("element"), py::arg("fill"),
             "Test hook of the folding conversion.");
  module.def("from_nc1hwc2", &from_nc1hwc2, py::arg("device"), py::arg("pixels"),
             py::arg("channels"), py::arg("surface_stride_bytes"), py::arg("element"), hook);
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
}

}  // namespace rk3588
