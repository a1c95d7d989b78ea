// Patterns put where the NPU must write: still there afterwards, the work was not done.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "host/drm_file.h"

namespace rk3588 {

class RunMark {
 public:
  static constexpr size_t kBytes = 16;  // an atom: the device writes no less

  RunMark() : state_(static_cast<uint64_t>(monotonic_ns())) {}

  // Makes a pattern that no earlier run can have left behind.
  void renew() {
    pattern_[0] = mixed(state_ += kGoldenRatio);
    pattern_[1] = mixed(pattern_[0]);
  }
  void put(uint8_t* place) const { std::memcpy(place, pattern_.data(), kBytes); }
  bool is_at(const uint8_t* place) const { return load(place) == pattern_; }
  // Whether any mark is there: its second half follows from its first.
  static bool is_any_at(const uint8_t* place) {
    const Pattern found = load(place);
    return found[1] == mixed(found[0]);
  }

 private:
  using Pattern = std::array<uint64_t, 2>;
  static constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;

  // splitmix64
  static uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  static Pattern load(const uint8_t* place) {
    Pattern found;
    std::memcpy(found.data(), place, kBytes);
    return found;
  }

  Pattern pattern_{};
  uint64_t state_;
};

}  // namespace rk3588
