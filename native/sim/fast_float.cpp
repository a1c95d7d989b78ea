#include "sim/fast_float.h"

#include <algorithm>
#include <cmath>

#include "sim/dpu_element.h"
#include "sim/fast.h"

namespace rk3588::sim {
namespace {

// Pixels of a work item: their features and the weights of a block stay in the caches.
constexpr size_t kChunkPixels = 8 * kHalfPixels;
// A sum of the products of a group of input lanes is exact in double precision while its bits, from
// the last of the smallest product to the carry of the largest sum, are no more than these.
constexpr int kDoubleBits = 53;
constexpr int kCarryBits = 6;
static_assert(kMostInputLanes <= 1u << kCarryBits);
constexpr int kNotFinite = 1000;
// Adding n products in double precision, in any order, is off by less than n + 1 times 2^-53 of the
// sum of their magnitudes, which is at most the product of both norms; the rest is for the
// roundings of the norms and of the comparison itself.
constexpr double kRounding = 1.0 / 9007199254740992.0;
constexpr double kSlack = 8.0;

// The numbers of a group of input lanes, of one pixel or of one tap's kernels: the binary places
// from the first to the last that any uses, and the norm.
struct Numbers {
  int span = 0;
  double norm = 0.0;
};

int span_of(double squares, uint64_t bits) {
  if (!std::isfinite(squares)) return kNotFinite;
  if (bits == 0) return -kNotFinite;
  int low = 0;
  int high = 63;
  while ((bits >> low & 1) == 0) ++low;
  while ((bits >> high & 1) == 0) --high;
  return high - low;
}

// The weights of 16 kernels for every group and tap: doubles in the kernels' order, their norms,
// and what all of them use.
struct WeightsOfBlock {
  std::vector<double> values;  // [group][tap][lane][16]
  std::vector<double> norms;   // [group][tap][16]
  std::vector<int> spans;      // [group][tap]
};

class DenseFloat {
 public:
  DenseFloat(const TaskPlan& task, const HalfKernels& kernels, ThreadPool& pool)
      : task_(task), cna_(task.cna), kernels_(kernels), writer_(task, kernels) {
    lanes_ = cna_.chip->input_lanes;
    channels_ = cna_.feature.channels;
    groups_ = (channels_ + lanes_ - 1) / lanes_;
    taps_ = cna_.weights.kh * cna_.weights.kw;
    load_features(pool);
    blocks_.resize((task.dpu.channels + kHalfKernels - 1) / kHalfKernels);
    pool.run(blocks_.size(), [&](size_t block) { load_weights(block); });
  }

  void run(ThreadPool& pool) const {
    const size_t pixels = size_t{task_.dpu.height} * task_.dpu.width;
    pool.run((pixels + kChunkPixels - 1) / kChunkPixels, [&](size_t chunk) {
      const size_t first = chunk * kChunkPixels;
      run_chunk(first, std::min(kChunkPixels, pixels - first));
    });
  }

 private:
  uint32_t lanes_of(uint32_t group) const { return std::min(lanes_, channels_ - group * lanes_); }

  // All pixels, and behind them one of padding.
  void load_features(ThreadPool& pool) {
    const FeatureCube& f = cna_.feature;
    const size_t pixels = size_t{f.height} * f.width;
    features_.resize((pixels + 1) * channels_);
    numbers_.resize((pixels + 1) * groups_);
    pool.run(f.height, [&](size_t y) {
      for (size_t x = 0; x < f.width; ++x) {
        load_pixel(y * f.width + x, task_.feature + y * f.line_pitch + x * kAtomBytes,
                   static_cast<ptrdiff_t>(f.surface_pitch));
      }
    });
    load_pixel(pixels, cna_.pad_atom().data(), 0);
  }

  void load_pixel(size_t pixel, const int8_t* atoms, ptrdiff_t pitch) {
    const size_t surfaces = lanes_ / kHalfLanes;  // of a group
    for (uint32_t group = 0; group < groups_; ++group) {
      uint64_t bits = 0;
      const double squares = kernels_.load(atoms + static_cast<ptrdiff_t>(group * surfaces) * pitch,
                                           pitch, lanes_of(group) / kHalfLanes,
                                           &features_[pixel * channels_ + group * lanes_], &bits);
      const double rounding = (lanes_of(group) + kSlack) * kRounding;
      numbers_[pixel * groups_ + group] = {span_of(squares, bits), std::sqrt(squares) * rounding};
    }
  }

  void load_weights(size_t block) {
    WeightsOfBlock& out = blocks_[block];
    const auto first = static_cast<uint32_t>(block * kHalfKernels);
    const uint32_t kernels = first < cna_.weights.kernels
                                 ? std::min<uint32_t>(kHalfKernels, cna_.weights.kernels - first)
                                 : 0;
    out.values.assign(size_t{taps_} * channels_ * kHalfKernels, 0.0);
    out.norms.assign(size_t{groups_} * taps_ * kHalfKernels, 0.0);
    out.spans.assign(size_t{groups_} * taps_, -kNotFinite);
    for (uint32_t group = 0; group < groups_; ++group) {
      const uint32_t count = lanes_of(group);
      for (uint32_t tap = 0; tap < taps_; ++tap) {
        const size_t at = size_t{group} * taps_ + tap;
        double* values = &out.values[weights_before(group, tap)];
        double squares = 0.0;
        uint64_t bits = 0;
        for (uint32_t k = 0; k < kernels; ++k) {
          const uint64_t offset = weight_offset(cna_, first + k, group * lanes_,
                                                tap / cna_.weights.kw, tap % cna_.weights.kw);
          double row[kMostInputLanes];
          uint64_t places = 0;
          const double own =
              kernels_.load(task_.weights + offset, kAtomBytes, count / kHalfLanes, row, &places);
          for (uint32_t i = 0; i < count; ++i) values[i * kHalfKernels + k] = row[i];
          out.norms[at * kHalfKernels + k] = std::sqrt(own);
          squares += own;
          bits |= places;
        }
        out.spans[at] = span_of(squares, bits);
      }
    }
  }

  size_t weights_before(uint32_t group, uint32_t tap) const {
    return (size_t{group} * lanes_ * taps_ + size_t{tap} * lanes_of(group)) * kHalfKernels;
  }

  // Where the pixels' windows lie: [tap][pixel], the padding where they leave the input.
  std::vector<uint32_t> windows(size_t first, size_t count) const {
    const FeatureCube& f = cna_.feature;
    std::vector<uint32_t> found(taps_ * count, f.height * f.width);
    for (size_t p = 0; p < count; ++p) {
      const auto y = static_cast<int64_t>((first + p) / task_.dpu.width) * cna_.stride_h;
      const auto x = static_cast<int64_t>((first + p) % task_.dpu.width) * cna_.stride_w;
      for (uint32_t tap = 0; tap < taps_; ++tap) {
        const int64_t iy = y + int64_t{tap / cna_.weights.kw} * cna_.dilation_h - cna_.pad_top;
        const int64_t ix = x + int64_t{tap % cna_.weights.kw} * cna_.dilation_w - cna_.pad_left;
        if (iy >= 0 && iy < f.height && ix >= 0 && ix < f.width) {
          found[tap * count + p] = static_cast<uint32_t>(iy * f.width + ix);
        }
      }
    }
    return found;
  }

  void run_chunk(size_t first, size_t count) const {
    const std::vector<uint32_t> where = windows(first, count);
    float sums[kHalfPixels * kHalfKernels];
    const uint32_t surfaces = task_.dpu.channels / kHalfLanes;
    for (size_t block = 0; block < blocks_.size(); ++block) {
      for (size_t begin = 0; begin < count; begin += kHalfPixels) {
        const auto pixels = static_cast<int>(std::min<size_t>(kHalfPixels, count - begin));
        accumulate(blocks_[block], &where[begin], count, pixels, sums);
        const auto surface = static_cast<uint32_t>(block * (kHalfKernels / kHalfLanes));
        for (uint32_t s = 0; s < kHalfKernels / kHalfLanes && surface + s < surfaces; ++s) {
          writer_.write(surface + s, first + begin, sums + s * kHalfLanes, kHalfKernels, pixels);
        }
      }
    }
  }

  void accumulate(const WeightsOfBlock& weights, const uint32_t* where, size_t taps_apart,
                  int pixels, float* sums) const {
    const double* inputs[kHalfPixels];
    double bounds[kHalfPixels];
    uint16_t unsure[kHalfPixels];
    std::fill_n(sums, pixels * kHalfKernels, 0.0f);
    for (uint32_t group = 0; group < groups_; ++group) {
      const uint32_t count = lanes_of(group);
      for (uint32_t tap = 0; tap < taps_; ++tap) {
        const size_t at = size_t{group} * taps_ + tap;
        for (int p = 0; p < pixels; ++p) {
          const size_t pixel = where[tap * taps_apart + p];
          const Numbers& own = numbers_[pixel * groups_ + group];
          const bool is_exact = own.span + weights.spans[at] + 1 + kCarryBits < kDoubleBits;
          inputs[p] = &features_[pixel * channels_ + size_t{group} * lanes_];
          bounds[p] = is_exact ? 0.0 : own.norm;
        }
        const double* values = &weights.values[weights_before(group, tap)];
        if (kernels_.block(inputs, bounds, count, values, &weights.norms[at * kHalfKernels], sums,
                           unsure, pixels) != 0) {
          for (int p = 0; p < pixels; ++p) {
            add_exactly(inputs[p], values, count, unsure[p], sums + p * kHalfKernels);
          }
        }
      }
    }
  }

  // The literal sum for kernels whose bit is set.
  static void add_exactly(const double* input, const double* weights, uint32_t count,
                          uint32_t kernels, float* sums) {
    if (kernels == 0) return;
    uint16_t a[kMostInputLanes];
    uint16_t b[kMostInputLanes];
    for (uint32_t i = 0; i < count; ++i) a[i] = float_to_half(static_cast<float>(input[i]));
    for (uint32_t k = 0; k < kHalfKernels; ++k) {
      if ((kernels >> k & 1) == 0) continue;
      for (uint32_t i = 0; i < count; ++i) {
        b[i] = float_to_half(static_cast<float>(weights[i * kHalfKernels + k]));
      }
      sums[k] += exact_dot(a, b, 1, count);
    }
  }

  const TaskPlan& task_;
  const CnaConfig& cna_;
  const HalfKernels& kernels_;
  const HalfWriter writer_;
  uint32_t lanes_ = 0;  // input channels of a group
  uint32_t channels_ = 0;
  uint32_t groups_ = 0;
  uint32_t taps_ = 0;
  std::vector<double> features_;
  std::vector<Numbers> numbers_;  // [pixel][group]; norms with the rounding's share
  std::vector<WeightsOfBlock> blocks_;
};

class DepthwiseFloat {
 public:
  DepthwiseFloat(const TaskPlan& task, const HalfKernels& kernels, ThreadPool& pool)
      : task_(task),
        kernels_(kernels),
        writer_(task, kernels),
        window_(make_window(task, pool, &window_memory_)),
        offsets_(window_.tap_offsets(task.cna, 1)) {}

  // All pixels of a surface.
  void run(uint32_t surface) const {
    const DpuConfig& dpu = task_.dpu;
    const WeightBlock& w = task_.cna.weights;
    std::vector<float> weights(offsets_.size() * kHalfLanes);
    const bool has_kernels = surface < task_.cna.feature.surfaces();
    for (uint32_t tap = 0; has_kernels && tap < offsets_.size(); ++tap) {
      const uint64_t offset =
          weight_offset(task_.cna, surface * kHalfLanes, 0, tap / w.kw, tap % w.kw);
      double values[kHalfLanes];
      uint64_t bits = 0;
      kernels_.load(task_.weights + offset, kAtomBytes, 1, values, &bits);
      for (int i = 0; i < kHalfLanes; ++i) {
        weights[tap * kHalfLanes + i] = static_cast<float>(values[i]);
      }
    }
    std::vector<float> sums(size_t{dpu.width} * kHalfLanes);
    const int8_t* input = window_.data + surface * window_.surface_pitch;
    for (uint32_t y = 0; y < dpu.height; ++y, input += window_.output_row_pitch) {
      if (has_kernels) {
        kernels_.depthwise(input, offsets_.data(), offsets_.size(), weights.data(), sums.data(),
                           dpu.width);
      }
      writer_.write(surface, size_t{y} * dpu.width, sums.data(), kHalfLanes, dpu.width);
    }
  }

 private:
  const TaskPlan& task_;
  const HalfKernels& kernels_;
  const HalfWriter writer_;
  std::vector<int8_t> window_memory_;
  const FeatureWindow window_;
  const std::vector<ptrdiff_t> offsets_;
};

}  // namespace

void run_float(const TaskPlan& task, const HalfKernels& kernels, ThreadPool& pool) {
  const bool has_lanes = !task.is_conv || task.cna.feature.lanes == kHalfLanes;
  if (!has_lanes) {
    run_elements(task, &pool);
    return;
  }
  if (task.is_conv && !task.cna.is_depthwise) {
    DenseFloat(task, kernels, pool).run(pool);
    return;
  }
  if (task.is_conv) {
    const DepthwiseFloat depthwise(task, kernels, pool);
    pool.run(task.dpu.channels / kHalfLanes,
             [&](size_t s) { depthwise.run(static_cast<uint32_t>(s)); });
    return;
  }
  const HalfWriter writer(task, kernels);
  if (!writer.is_vectorised()) {
    run_elements(task, &pool);
    return;
  }
  pool.run(task.dpu.surfaces(), [&](size_t s) {
    writer.write(static_cast<uint32_t>(s), 0, nullptr, 0, size_t{task.dpu.height} * task.dpu.width);
  });
}

}  // namespace rk3588::sim
