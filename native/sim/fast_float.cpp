#include "sim/fast_float.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/dpu_element.h"

namespace rk3588::sim {
namespace {

// Kernels of a block: one weight group.
constexpr uint32_t kKernels = 16;
// A sum of the products of a group of input lanes is exact in double precision while its bits, from
// the last of the smallest product to the carry of the largest sum, are no more than these.
constexpr int kDoubleBits = 53;
constexpr int kCarryBits = 6;
static_assert(kMostInputLanes <= 1u << kCarryBits);

// The binary places that a set of numbers uses; empty sets and zeros use none.
struct Places {
  int low = std::numeric_limits<int>::max() / 4;
  int high = std::numeric_limits<int>::min() / 4;

  void include(uint16_t half) {
    const int exponent = half >> 10 & 31;
    const uint32_t mantissa = exponent == 0 ? half & 0x3ffu : (half & 0x3ffu) | 0x400u;
    if (mantissa == 0) return;
    // Infinities and NaN: never exact, so that the literal sum decides.
    if (exponent == 31) {
      low = -1000;
      high = 1000;
      return;
    }
    int first = 0;
    int last = 10;
    while ((mantissa >> first & 1) == 0) ++first;
    while ((mantissa >> last & 1) == 0) --last;
    const int unit = std::max(exponent, 1);
    low = std::min(low, unit + first);
    high = std::max(high, unit + last);
  }
};

bool is_exact(const Places& a, const Places& b) {
  return a.high + b.high + 1 + kCarryBits - (a.low + b.low) <= kDoubleBits;
}

// Features and weights as doubles and as halves, in the order in which blocks use them. A block is
// the input lanes of one tap.
class DenseFloat {
 public:
  explicit DenseFloat(const TaskPlan& task) : task_(task), cna_(task.cna) {
    const FeatureCube& f = cna_.feature;
    lanes_ = cna_.chip->input_lanes;
    groups_ = (f.channels + lanes_ - 1) / lanes_;
    taps_ = cna_.weights.kh * cna_.weights.kw;
    load_features();
    for (uint32_t i = 0; i < f.channels; ++i) pad_half_.push_back(cna_.pad_half);
    pad_.assign(f.channels, half_to_float(cna_.pad_half));
    pad_places_.include(cna_.pad_half);
  }

  // All pixels of the 16 kernels from `first` on.
  void run(uint32_t first) const {
    std::vector<double> weights;
    std::vector<uint16_t> halves;
    std::vector<Places> places;
    load_weights(first, &weights, &halves, &places);
    const DpuConfig& dpu = task_.dpu;
    std::vector<ChannelOperands> operands(kKernels);
    for (uint32_t k = 0; k < kKernels; ++k) {
      if (first + k < dpu.real_channels) {
        operands[k] = channel_operands(dpu, task_.operands, first + k);
      }
    }
    float sums[kKernels];
    for (uint32_t y = 0; y < dpu.height; ++y) {
      for (uint32_t x = 0; x < dpu.width; ++x) {
        accumulate(weights, halves, places, y, x, sums);
        for (uint32_t k = 0; k < kKernels && first + k < dpu.channels; ++k) {
          const uint32_t channel = first + k;
          uint32_t bits = pend_bits(dpu);
          if (channel < dpu.real_channels) {
            const uint64_t pixel = uint64_t{y} * dpu.width + x;
            bits =
                run_float_element(dpu, operands[k], sums[k], ew_operand_of(task_, channel, pixel));
          }
          store_element(task_, channel, y, x, bits);
        }
      }
    }
  }

 private:
  static uint16_t load_half(const int8_t* bytes) {
    return static_cast<uint16_t>(static_cast<uint8_t>(bytes[0]) | static_cast<uint8_t>(bytes[1])
                                                                      << 8);
  }

  void load_features() {
    const FeatureCube& f = cna_.feature;
    const size_t pixels = size_t{f.height} * f.width;
    features_.resize(pixels * f.channels);
    feature_halves_.resize(features_.size());
    feature_places_.resize(pixels * groups_);
    for (size_t p = 0; p < pixels; ++p) {
      const int8_t* pixel = task_.feature + p / f.width * f.line_pitch + p % f.width * kAtomBytes;
      for (uint32_t i = 0; i < f.channels; ++i) {
        const uint16_t half = load_half(pixel + i / f.lanes * f.surface_pitch + i % f.lanes * 2);
        feature_halves_[p * f.channels + i] = half;
        features_[p * f.channels + i] = half_to_float(half);
        feature_places_[p * groups_ + i / lanes_].include(half);
      }
    }
  }

  void load_weights(uint32_t first, std::vector<double>* weights, std::vector<uint16_t>* halves,
                    std::vector<Places>* places) const {
    const uint32_t channels = cna_.feature.channels;
    weights->assign(size_t{taps_} * channels * kKernels, 0.0);
    halves->assign(weights->size(), 0);
    places->resize(size_t{groups_} * taps_);
    const uint32_t kernels =
        first < cna_.weights.kernels ? std::min(kKernels, cna_.weights.kernels - first) : 0;
    for (uint32_t tap = 0; tap < taps_; ++tap) {
      for (uint32_t i = 0; i < channels; ++i) {
        for (uint32_t k = 0; k < kernels; ++k) {
          const uint64_t offset =
              half_weight_offset(cna_, first + k, i, tap / cna_.weights.kw, tap % cna_.weights.kw);
          const uint16_t half = load_half(task_.weights + offset);
          const size_t at = (size_t{tap} * channels + i) * kKernels + k;
          (*halves)[at] = half;
          (*weights)[at] = half_to_float(half);
          (*places)[size_t{i / lanes_} * taps_ + tap].include(half);
        }
      }
    }
  }

  void accumulate(const std::vector<double>& weights, const std::vector<uint16_t>& halves,
                  const std::vector<Places>& places, uint32_t y, uint32_t x, float* sums) const {
    const FeatureCube& f = cna_.feature;
    std::fill_n(sums, kKernels, 0.0f);
    for (uint32_t group = 0; group < groups_; ++group) {
      const uint32_t begin = group * lanes_;
      const uint32_t count = std::min(lanes_, f.channels - begin);
      for (uint32_t tap = 0; tap < taps_; ++tap) {
        const int64_t iy = int64_t{y} * cna_.stride_h +
                           int64_t{tap / cna_.weights.kw} * cna_.dilation_h - cna_.pad_top;
        const int64_t ix = int64_t{x} * cna_.stride_w +
                           int64_t{tap % cna_.weights.kw} * cna_.dilation_w - cna_.pad_left;
        const bool inside = iy >= 0 && iy < f.height && ix >= 0 && ix < f.width;
        const size_t p = inside ? static_cast<size_t>(iy) * f.width + ix : 0;
        const double* in = inside ? &features_[p * f.channels + begin] : &pad_[begin];
        const Places& in_places = inside ? feature_places_[p * groups_ + group] : pad_places_;
        const size_t at = (size_t{tap} * f.channels + begin) * kKernels;
        if (is_exact(in_places, places[size_t{group} * taps_ + tap])) {
          double block[kKernels] = {};
          const double* w = &weights[at];
          for (uint32_t i = 0; i < count; ++i, w += kKernels) {
            for (uint32_t k = 0; k < kKernels; ++k) block[k] += in[i] * w[k];
          }
          for (uint32_t k = 0; k < kKernels; ++k) sums[k] += static_cast<float>(block[k]);
          continue;
        }
        const uint16_t* half =
            inside ? &feature_halves_[p * f.channels + begin] : &pad_half_[begin];
        for (uint32_t k = 0; k < kKernels; ++k) {
          sums[k] += exact_dot(half, &halves[at + k], kKernels, count);
        }
      }
    }
  }

  const TaskPlan& task_;
  const CnaConfig& cna_;
  uint32_t lanes_ = 0;  // input channels of a group
  uint32_t groups_ = 0;
  uint32_t taps_ = 0;
  std::vector<double> features_;
  std::vector<uint16_t> feature_halves_;
  std::vector<Places> feature_places_;
  std::vector<double> pad_;
  std::vector<uint16_t> pad_half_;
  Places pad_places_;
};

}  // namespace

void run_float(const TaskPlan& task, ThreadPool& pool) {
  if (!task.is_conv || task.cna.is_depthwise) {
    run_elements(task, &pool);
    return;
  }
  const DenseFloat dense(task);
  pool.run((task.dpu.channels + kKernels - 1) / kKernels,
           [&](size_t block) { dense.run(static_cast<uint32_t>(block) * kKernels); });
}

}  // namespace rk3588::sim
