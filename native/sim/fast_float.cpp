#include "sim/fast_float.h"

#include <algorithm>

#include "sim/dpu_element.h"
#include "sim/fast.h"

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

// Padded inputs beyond this, of which no program knows, take the literal path, which needs no
// memory.
constexpr size_t kMostValues = size_t{1} << 24;
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
  } else if (!run_by_number(task, pool)) {
    run_elements(task, pool);
  }
}

}  // namespace rk3588::sim
