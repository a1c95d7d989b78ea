#include "program/result_difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "program/host_values.h"

namespace rk3588 {
namespace {

struct Count {
  size_t different = 0;
  size_t first = 0;

  void add(size_t place) {
    if (different++ == 0) first = place;
  }
};

Count different_bytes(const uint8_t* found, const std::vector<uint8_t>& expected) {
  Count count;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (found[i] != expected[i]) count.add(i);
  }
  return count;
}

float number(const uint8_t* bytes, size_t index) {
  float value;
  std::memcpy(&value, bytes + index * sizeof(value), sizeof(value));
  return value;
}

Count different_floats(const uint8_t* found, const uint8_t* expected, size_t size) {
  float largest = 0;
  for (size_t i = 0; i < size; ++i) {
    const float magnitude = std::fabs(number(expected, i));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  Count count;
  for (size_t i = 0; i < size; ++i) {
    const float a = number(found, i);
    const float b = number(expected, i);
    const bool is_same =
        a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= largest * kHalfTolerance;
    if (!is_same) count.add(i);
  }
  return count;
}

}  // namespace

std::string result_difference(const std::vector<Binding>& bindings,
                              Span<const uint8_t* const> found,
                              const std::vector<std::vector<uint8_t>>& expected) {
  for (size_t i = 0; i < bindings.size(); ++i) {
    const size_t size = bindings[i].is_half() ? bindings[i].elements() : expected[i].size();
    const Count count = bindings[i].is_half() ? different_floats(found[i], expected[i].data(), size)
                                              : different_bytes(found[i], expected[i]);
    if (count.different == 0) continue;
    return std::to_string(count.different) + " of " + std::to_string(size) +
           " elements of output " + bindings[i].name + " differ from the simulator, the first at " +
           std::to_string(count.first);
  }
  return {};
}

bool are_same_halves(Span<const uint8_t> found, Span<const uint8_t> expected) {
  const size_t size = expected.size() / 2;
  std::vector<uint8_t> a(size * sizeof(float));
  std::vector<uint8_t> b(size * sizeof(float));
  from_half(found.data(), size, a.data());
  from_half(expected.data(), size, b.data());
  return different_floats(a.data(), b.data(), size).different == 0;
}

}  // namespace rk3588
