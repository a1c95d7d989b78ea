#include "time_layout.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "program/layout.h"

namespace rk3588 {
namespace {

template <typename Body>
uint64_t fastest_ns(size_t repeats, Body body) {
  uint64_t best = UINT64_MAX;
  for (size_t i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const auto time = std::chrono::steady_clock::now() - start;
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    best = std::min(best, static_cast<uint64_t>(ns));
  }
  return best;
}

}  // namespace

std::tuple<uint64_t, uint64_t, uint64_t> time_layout(size_t pixels, size_t channels,
                                                     Element element, size_t repeats) {
  const ImageLayout layout{pixels, channels, pixels * kAtomBytes, element, 0};
  const size_t surfaces = (layout.pixel_bytes() + kAtomBytes - 1) / kAtomBytes;
  std::vector<uint8_t> host(pixels * layout.pixel_bytes(), 1);
  std::vector<uint8_t> copy(host.size(), 2);
  std::vector<uint8_t> device(surfaces * layout.surface_stride_bytes, 3);
  const uint64_t to = fastest_ns(
      repeats, [&] { to_device_layout(layout, host.data(), host.size(), device.data()); });
  const uint64_t from = fastest_ns(
      repeats, [&] { from_device_layout(layout, device.data(), host.data(), host.size()); });
  volatile uint8_t seen = 0;
  const uint64_t plain = fastest_ns(repeats, [&] {
    std::memcpy(copy.data(), host.data(), host.size());
    seen = copy[copy.size() / 2];
  });
  return {to, from, plain};
}

}  // namespace rk3588
