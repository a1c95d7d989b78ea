#include "sim/fast_float.h"

#include <algorithm>
#include <memory>

#include "sim/dpu_element.h"

namespace rk3588::sim {
namespace {

class DepthwiseFloat {
 public:
  DepthwiseFloat(const TaskPlan& task, const HalfKernels& kernels)
      : task_(task), kernels_(kernels), writer_(task, kernels), input_(task.cna) {}

  // All pixels of a surface.
  void run(uint32_t surface) const {
    const DpuConfig& dpu = task_.dpu;
    const CnaConfig& cna = task_.cna;
    std::vector<float> sums(rounded_up(dpu.width, kDepthwiseStep) * kHalfLanes);
    const bool is_empty = surface * kHalfLanes >= dpu.real_channels;
    if (is_empty || surface >= cna.feature.surfaces()) {
      for (uint32_t y = 0; y < dpu.height; ++y) write(surface, y, sums);
      return;
    }
    const size_t count = size_t{cna.weights.kh} * cna.weights.kw;
    std::vector<float> weights(count * kHalfLanes);
    for (uint32_t tap = 0; tap < count; ++tap) {
      const uint64_t offset =
          weight_offset(cna, surface * kHalfLanes, 0, tap / cna.weights.kw, tap % cna.weights.kw);
      kernels_.widen(task_.weights + offset, 1, &weights[tap * kHalfLanes]);
    }
    // The rows under a window, in turns; behind them what whole steps read.
    const size_t pitch = (input_.columns + kDepthwiseStep * cna.stride_w) * kHalfLanes;
    const size_t rows = cna.reach_h();
    std::vector<float> ring(pitch * rows);
    std::vector<const float*> taps(count);
    size_t next = 0;
    for (uint32_t y = 0; y < dpu.height; ++y) {
      const size_t first = size_t{y} * cna.stride_h;
      for (next = std::max(next, first); next < first + rows; ++next) {
        load_row(surface, next, &ring[next % rows * pitch]);
      }
      const float** tap = taps.data();
      for (uint32_t ky = 0; ky < cna.weights.kh; ++ky) {
        const float* row = &ring[(first + size_t{ky} * cna.dilation_h) % rows * pitch];
        for (uint32_t kx = 0; kx < cna.weights.kw; ++kx) {
          *tap++ = row + size_t{kx} * cna.dilation_w * kHalfLanes;
        }
      }
      kernels_.depthwise(taps.data(), count, size_t{cna.stride_w} * kHalfLanes, weights.data(),
                         sums.data(), dpu.width);
      write(surface, y, sums);
    }
  }

 private:
  void write(uint32_t surface, uint32_t y, const std::vector<float>& sums) const {
    const uint32_t width = task_.dpu.width;
    writer_.write(surface, size_t{y} * width, sums.data(), kHalfLanes, width);
  }

  void load_row(uint32_t surface, size_t row, float* values) const {
    const size_t before = surface * task_.cna.feature.surface_pitch;
    input_.for_row(task_, row, [&](size_t column, size_t count, const int8_t* atoms) {
      float* out = values + column * kHalfLanes;
      if (atoms != nullptr) {
        kernels_.widen(atoms + before, count, out);
        return;
      }
      for (size_t p = 0; p < count; ++p) kernels_.widen(input_.pad.data(), 1, out + p * kHalfLanes);
    });
  }

  const TaskPlan& task_;
  const HalfKernels& kernels_;
  const HalfWriter writer_;
  const PaddedInput input_;
};

// A number's result in a channel, computed when it is first asked for.
class Results {
 public:
  Results(const TaskPlan& task, uint32_t channel)
      : dpu_(task.dpu),
        operands_(channel_operands(task.dpu, task.operands, channel)),
        ew_(ew_operand_of(task, channel, 0)) {}

  bool is_of(const TaskPlan& task, uint32_t channel) const {
    const ChannelOperands other = channel_operands(task.dpu, task.operands, channel);
    return operands_.bs_alu == other.bs_alu && operands_.bs_mul == other.bs_mul &&
           operands_.bn_alu == other.bn_alu && operands_.bn_mul == other.bn_mul &&
           ew_ == ew_operand_of(task, channel, 0);
  }

  uint16_t of(uint16_t half) {
    uint32_t& result = results_[half];
    if (result == kUnknown) result = run_float_element(dpu_, operands_, half_to_float(half), ew_);
    return static_cast<uint16_t>(result);
  }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  const DpuConfig& dpu_;
  ChannelOperands operands_;
  int32_t ew_;
  std::vector<uint32_t> results_ = std::vector<uint32_t>(1 << 16, kUnknown);
};

// Padded inputs beyond this, of which no program knows, take the literal path, which needs no
// memory.
constexpr size_t kMostValues = size_t{1} << 24;
// Elements from which on results are kept.
constexpr size_t kWorthElements = 1 << 14;

// Tasks of the DPU alone whose results depend on nothing but the number and its channel.
bool can_keep_results(const TaskPlan& task) {
  const DpuConfig& dpu = task.dpu;
  return !task.is_conv && dpu.in == Element::kFp16 && dpu.out_element == Element::kFp16 &&
         !reads_pixels(task) &&
         size_t{dpu.height} * dpu.width * dpu.real_channels >= kWorthElements;
}

void run_by_number(const TaskPlan& task, ThreadPool& pool) {
  const DpuConfig& dpu = task.dpu;
  pool.run(dpu.surfaces(), [&](size_t surface) {
    const auto first = static_cast<uint32_t>(surface) * kHalfLanes;
    std::unique_ptr<Results> results;
    for (uint32_t channel = first; channel < first + kHalfLanes; ++channel) {
      const bool is_real = channel < dpu.real_channels;
      if (is_real && (results == nullptr || !results->is_of(task, channel))) {
        results = std::make_unique<Results>(task, channel);
      }
      store_elements(task, channel, 1, 0, size_t{dpu.height} * dpu.width,
                     [&](const ChannelOperands&, const ElementPlace& at) -> uint32_t {
                       const int32_t half = task.operands.main.element(at.channel, at.pixel);
                       return results->of(static_cast<uint16_t>(half));
                     });
    }
  });
}

}  // namespace

void run_float(const TaskPlan& task, const HalfKernels& kernels, ThreadPool& pool,
               std::vector<double>* memory) {
  if (task.is_conv) {
    const PaddedInput input(task.cna);
    const size_t values = input.rows * input.columns * task.cna.feature.channels;
    if (task.cna.feature.lanes != kHalfLanes || values > kMostValues) {
      run_elements(task, pool);
    } else if (!task.cna.is_depthwise) {
      run_dense_float(task, kernels, pool, memory);
    } else {
      const DepthwiseFloat depthwise(task, kernels);
      pool.run(task.dpu.channels / kHalfLanes,
               [&](size_t s) { depthwise.run(static_cast<uint32_t>(s)); });
    }
    return;
  }
  const HalfWriter writer(task, kernels);
  if (writer.is_vectorised()) {
    const size_t pixels = size_t{task.dpu.height} * task.dpu.width;
    pool.run(task.dpu.surfaces(),
             [&](size_t s) { writer.write(static_cast<uint32_t>(s), 0, nullptr, 0, pixels); });
  } else if (can_keep_results(task)) {
    run_by_number(task, pool);
  } else {
    run_elements(task, pool);
  }
}

}  // namespace rk3588::sim
