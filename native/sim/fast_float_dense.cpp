// Dense convolutions of fp16 tasks.
#include <algorithm>
#include <cmath>

#include "sim/dpu_element.h"
#include "sim/fast_float.h"

namespace rk3588::sim {
namespace {

// Pixels of a work item: their features and the weights of a block stay in the caches.
constexpr size_t kChunkPixels = 8 * kHalfPixels;
// A sum of products is exact in double precision, in any order, if the product of both norms, which
// no part of it exceeds, is below 2^53 times what all products are multiples of. Here all are
// squares; the rest is for the roundings of the squares in fp32.
constexpr float kMostRange = 0x1.ffp105f;
// Else adding n products is off by less than n + 1 times 2^-53 of the product of both norms; the
// rest is for the roundings of the norms and of the comparison itself.
constexpr double kRounding = 0x1p-53;
constexpr double kSlack = 8.0;

// The weights of 16 kernels for every group and tap: doubles in the kernels' order.
struct WeightsOfBlock {
  double* values = nullptr;      // [group][tap][lane][16]
  std::vector<HalfReach> reach;  // of each group
  size_t kernels = 0;
  size_t used = 0;        // channels behind them have no weight but 0
  bool is_exact = false;  // with every pixel
};

class DenseFloat {
 public:
  DenseFloat(const TaskPlan& task, const HalfKernels& kernels, ThreadPool& pool,
             std::vector<double>* memory)
      : task_(task), cna_(task.cna), kernels_(kernels), writer_(task, kernels), input_(task.cna) {
    lanes_ = cna_.chip->input_lanes;
    channels_ = cna_.feature.channels;
    groups_ = (channels_ + lanes_ - 1) / lanes_;
    pitch_ = rounded_up(input_.columns, kHalfPixels);
    for (uint32_t ky = 0; ky < cna_.weights.kh; ++ky) {
      for (uint32_t kx = 0; kx < cna_.weights.kw; ++kx) {
        taps_.push_back(ky * cna_.dilation_h * pitch_ + kx * cna_.dilation_w);
        offsets_.push_back(static_cast<ptrdiff_t>(taps_.back() * channels_));
      }
    }
    blocks_.resize((task.dpu.channels + kHalfKernels - 1) / kHalfKernels);
    const size_t features = input_.rows * pitch_ * channels_;
    const size_t weights = taps_.size() * channels_ * kHalfKernels;
    if (memory->size() < features + blocks_.size() * weights) {
      memory->resize(features + blocks_.size() * weights);
    }
    features_ = memory->data();
    for (size_t i = 0; i < blocks_.size(); ++i) {
      blocks_[i].values = features_ + features + i * weights;
    }
    load_features(pool);
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
  // Neighbouring output pixels.
  struct Tile {
    size_t pixels[kChunkPixels];  // of the padded input, under the first tap
    const double* inputs[kChunkPixels];
  };

  uint32_t lanes_of(uint32_t group) const { return std::min(lanes_, channels_ - group * lanes_); }

  void load_features(ThreadPool& pool) {
    reach_.resize(input_.rows * pitch_ / kHalfPixels * groups_);
    pool.run(input_.rows, [&](size_t row) {
      input_.for_row(task_, row, [&](size_t column, size_t count, const int8_t* atoms) {
        for (size_t done = 0; done < count;) {
          const size_t pixel = row * pitch_ + column + done;
          const size_t pixels = std::min(count - done, kHalfPixels - pixel % kHalfPixels);
          load_pixels(pixel, pixels, atoms == nullptr ? nullptr : atoms + done * kAtomBytes);
          done += pixels;
        }
      });
    });
    all_.resize(groups_);
    for (size_t i = 0; i < reach_.size(); ++i) all_[i % groups_].add(reach_[i]);
  }

  void load_pixels(size_t pixel, size_t pixels, const int8_t* atoms) {
    const auto surface_pitch = static_cast<ptrdiff_t>(cna_.feature.surface_pitch);
    for (uint32_t group = 0; group < groups_; ++group) {
      const size_t surfaces = lanes_of(group) / kHalfLanes;
      HalfAtoms own{input_.pad.data(), 0, surfaces, 0, pixels};
      if (atoms != nullptr) {
        own = {atoms + group * lanes_ / kHalfLanes * surface_pitch, surface_pitch, surfaces,
               kAtomBytes, pixels};
      }
      reach_of(pixel)[group].add(
          kernels_.load(own, features_ + pixel * channels_ + group * lanes_, channels_));
    }
  }

  HalfReach* reach_of(size_t pixel) { return &reach_[pixel / kHalfPixels * groups_]; }
  const HalfReach* reach_of(size_t pixel) const { return &reach_[pixel / kHalfPixels * groups_]; }

  void load_weights(size_t block) {
    WeightsOfBlock& out = blocks_[block];
    const auto first = static_cast<uint32_t>(block * kHalfKernels);
    if (first >= cna_.weights.kernels) {
      out.is_exact = true;
      return;
    }
    out.kernels = std::min<size_t>(kHalfKernels, cna_.weights.kernels - first);
    out.reach.resize(groups_);
    out.used = (groups_ - 1) * lanes_;
    double rows[kHalfKernels][kMostInputLanes] = {};  // kernels that there are not stay 0
    double* values = out.values;
    for (uint32_t group = 0; group < groups_; ++group) {
      const uint32_t count = lanes_of(group);
      for (uint32_t tap = 0; tap < taps_.size(); ++tap, values += count * kHalfKernels) {
        for (uint32_t k = 0; k < out.kernels; ++k) {
          const uint64_t offset = weight_offset(cna_, first + k, group * lanes_,
                                                tap / cna_.weights.kw, tap % cna_.weights.kw);
          out.reach[group].add(kernels_.load(
              {task_.weights + offset, kAtomBytes, count / kHalfLanes, 0, 1}, rows[k], 0));
        }
        for (uint32_t i = 0; i < count; ++i) {
          for (uint32_t k = 0; k < kHalfKernels; ++k) values[i * kHalfKernels + k] = rows[k][i];
        }
        if (group + 1 == groups_) out.used = std::max(out.used, used_of(values));
      }
    }
    out.is_exact = is_exact(all_.data(), out);
  }

  // Channels up to the last that has a weight, by those of a tap in the last group.
  size_t used_of(const double* values) const {
    size_t used = channels_;
    const size_t before = size_t{groups_ - 1} * lanes_;
    const auto is_zero = [](double weight) { return weight == 0.0; };
    while (used > before) {
      const double* last = values + (used - 1 - before) * kHalfKernels;
      if (!std::all_of(last, last + kHalfKernels, is_zero)) break;
      --used;
    }
    return used;
  }

  static bool fits(HalfReach a, HalfReach b) { return a.range * b.range < kMostRange; }

  // How far sums of products of these numbers in double precision are off at most.
  static double bound(HalfReach a, HalfReach b, uint32_t lanes) {
    if (fits(a, b)) return 0.0;
    return std::sqrt(double{a.squares} * b.squares) * (lanes + kSlack) * kRounding;
  }

  // Whether double precision holds all sums of these numbers, one of each group, and the block's.
  bool is_exact(const HalfReach* reach, const WeightsOfBlock& weights) const {
    for (uint32_t group = 0; group < groups_; ++group) {
      if (!fits(reach[group], weights.reach[group])) return false;
    }
    return true;
  }

  // The same of neighbouring output pixels and all taps.
  bool is_exact(const size_t* pixels, size_t count, const WeightsOfBlock& weights) const {
    std::vector<HalfReach> reach(groups_);
    for (size_t p = 0; p < count; ++p) {
      for (const size_t tap : taps_) {
        const HalfReach* own = reach_of(pixels[p] + tap);
        for (uint32_t group = 0; group < groups_; ++group) reach[group].add(own[group]);
      }
    }
    return is_exact(reach.data(), weights);
  }

  void run_chunk(size_t first, size_t count) const {
    Tile tile;
    for (size_t p = 0; p < count; ++p) {
      const size_t y = (first + p) / task_.dpu.width * cna_.stride_h;
      const size_t x = (first + p) % task_.dpu.width * cna_.stride_w;
      tile.pixels[p] = y * pitch_ + x;
      tile.inputs[p] = &features_[tile.pixels[p] * channels_];
    }
    float sums[kChunkPixels * kHalfKernels];
    const uint32_t surfaces = task_.dpu.channels / kHalfLanes;
    const size_t tiles = (count + kHalfPixels - 1) / kHalfPixels;
    for (size_t block = 0; block < blocks_.size(); ++block) {
      for (size_t i = 0; i < tiles; ++i) {
        const size_t begin = i * count / tiles;
        accumulate(blocks_[block], &tile.pixels[begin], &tile.inputs[begin],
                   (i + 1) * count / tiles - begin, &sums[begin * kHalfKernels]);
      }
      const auto surface = static_cast<uint32_t>(block * (kHalfKernels / kHalfLanes));
      for (uint32_t s = 0; s < kHalfKernels / kHalfLanes && surface + s < surfaces; ++s) {
        writer_.write(surface + s, first, sums + s * kHalfLanes, kHalfKernels, count);
      }
    }
  }

  void accumulate(const WeightsOfBlock& weights, const size_t* pixels, const double* const* inputs,
                  size_t count, float* sums) const {
    if (weights.is_exact || is_exact(pixels, count, weights)) {
      const HalfDense dense{offsets_.data(), offsets_.size(), lanes_, channels_, weights.used};
      kernels_.dense(dense, inputs, weights.values, weights.kernels, sums, static_cast<int>(count));
      return;
    }
    for (size_t p = 0; p < count; ++p, sums += kHalfKernels) {
      std::fill_n(sums, kHalfKernels, 0.0f);
      const double* values = weights.values;
      for (uint32_t group = 0; group < groups_; ++group) {
        for (const size_t tap : taps_) {
          add_checked(pixels[p] + tap, group, weights.reach[group], values, sums);
          values += size_t{lanes_of(group)} * kHalfKernels;
        }
      }
    }
  }

  // The sums of one pixel and group: those of double precision, or where these do not tell to which
  // number of fp32 they round, literally.
  void add_checked(size_t pixel, uint32_t group, HalfReach reach, const double* weights,
                   float* sums) const {
    const uint32_t lanes = lanes_of(group);
    const double* input = &features_[pixel * channels_ + size_t{group} * lanes_];
    const double doubt = bound(reach_of(pixel)[group], reach, lanes);
    double block[kHalfKernels] = {};
    for (uint32_t i = 0; i < lanes; ++i) {
      for (int k = 0; k < kHalfKernels; ++k) block[k] += input[i] * weights[i * kHalfKernels + k];
    }
    for (int k = 0; k < kHalfKernels; ++k) {
      const auto low = static_cast<float>(block[k] - doubt);
      const bool is_sure = low == static_cast<float>(block[k] + doubt);
      sums[k] += is_sure ? low : literal_sum(input, weights + k, lanes);
    }
  }

  static float literal_sum(const double* input, const double* weights, uint32_t count) {
    uint16_t a[kMostInputLanes];
    uint16_t b[kMostInputLanes];
    for (uint32_t i = 0; i < count; ++i) {
      a[i] = float_to_half(static_cast<float>(input[i]));
      b[i] = float_to_half(static_cast<float>(weights[i * kHalfKernels]));
    }
    return exact_dot(a, b, 1, count);
  }

  const TaskPlan& task_;
  const CnaConfig& cna_;
  const HalfKernels& kernels_;
  const HalfWriter writer_;
  const PaddedInput input_;
  uint32_t lanes_ = 0;  // input channels of a group
  uint32_t channels_ = 0;
  uint32_t groups_ = 0;
  size_t pitch_ = 0;                // pixels from row to row
  std::vector<size_t> taps_;        // in pixels from the first one
  std::vector<ptrdiff_t> offsets_;  // in values
  double* features_ = nullptr;      // [pixel][channel]
  std::vector<HalfReach> reach_;    // [run of kHalfPixels][group]
  std::vector<HalfReach> all_;      // [group]
  std::vector<WeightsOfBlock> blocks_;
};

}  // namespace

void run_dense_float(const TaskPlan& task, const HalfKernels& kernels, ThreadPool& pool,
                     std::vector<double>* memory) {
  DenseFloat(task, kernels, pool, memory).run(pool);
}

}  // namespace rk3588::sim
