// Patterns put where the NPU must write: still there afterwards, the work was not done.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "host/drm_file.h"

namespace rk3588 {

// What an error says where a mark of this layer's task is still there.
inline std::string unwritten(const std::string& layer) {
  return "nothing was written by " + (layer.empty() ? "the last task" : layer) +
         ": the kernel dropped the job or reset the NPU (see dmesg, run `doctor`)";
}

class RunMark {
 public:
  static constexpr size_t kBytes = 16;  // an atom: the device writes no less

  RunMark() : state_(static_cast<uint64_t>(monotonic_ns())) {}

  // A pattern that no earlier run can have left behind (splitmix64).
  void renew() {
    for (size_t i = 0; i < kBytes; i += sizeof(uint64_t)) {
      uint64_t z = (state_ += kGoldenRatio);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      z ^= z >> 31;
      std::memcpy(pattern_.data() + i, &z, sizeof(z));
    }
  }
  void put(uint8_t* place) const { std::memcpy(place, pattern_.data(), kBytes); }
  bool is_at(const uint8_t* place) const {
    return std::memcmp(place, pattern_.data(), kBytes) == 0;
  }

 private:
  static constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;

  std::array<uint8_t, kBytes> pattern_{};
  uint64_t state_;
};

}  // namespace rk3588
