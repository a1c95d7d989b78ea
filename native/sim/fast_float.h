// fp16 tasks by blocks of pixels and channels on several threads; the same results as run_elements.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "sim/kernels.h"
#include "sim/task.h"
#include "sim/thread_pool.h"

namespace rk3588::sim {

// The most input lanes of a group.
inline constexpr uint32_t kMostInputLanes = 64;

// `memory` is the caller's to keep: what goes on being large needs no new pages.
void run_float(const TaskPlan& task, const HalfKernels& kernels, ThreadPool& pool,
               std::vector<double>* memory);

inline size_t rounded_up(size_t count, size_t step) { return (count + step - 1) / step * step; }

// What the taps of all outputs meet, padding included: rows and columns of pixels.
struct PaddedInput {
  explicit PaddedInput(const CnaConfig& cna)
      : rows((cna.out_height - 1) * cna.stride_h + cna.reach_h()),
        columns((cna.out_width - 1) * cna.stride_w + cna.reach_w()),
        pad(cna.pad_atom()) {}
  size_t rows;
  size_t columns;
  std::array<int8_t, kAtomBytes> pad;

  // Calls see(first column, number, their first atom or nullptr: padding) for the parts of a row.
  template <typename See>
  void for_row(const TaskPlan& task, size_t row, See see) const {
    const CnaConfig& cna = task.cna;
    const FeatureCube& f = cna.feature;
    const bool is_inside = row >= cna.pad_top && row - cna.pad_top < f.height;
    const size_t left = is_inside ? std::min<size_t>(cna.pad_left, columns) : columns;
    const size_t inside = std::min<size_t>(f.width, columns - left);
    see(size_t{0}, left, nullptr);
    if (inside != 0) see(left, inside, task.feature + (row - cna.pad_top) * f.line_pitch);
    see(left + inside, columns - left - inside, nullptr);
  }
};

void run_dense_float(const TaskPlan& task, const HalfKernels& kernels, ThreadPool& pool,
                     std::vector<double>* memory);

// Whether EW has an operand of its own for each pixel.
bool reads_pixels(const TaskPlan& task);

// The stages of a task's pixels, and the store: vectorised where they can be, else literal.
class HalfWriter {
 public:
  HalfWriter(const TaskPlan& task, const HalfKernels& kernels);
  bool is_vectorised() const { return is_vectorised_; }
  // Channels 8 * surface and on of pixels that follow each other, `pixel` counted over the tile.
  // Takes sums[p * stride + c], or, if there are none, the main operand.
  void write(uint32_t surface, size_t pixel, const float* sums, size_t stride, size_t pixels) const;

 private:
  void write_elements(uint32_t surface, size_t pixel, const float* sums, size_t stride,
                      size_t pixels) const;

  const TaskPlan& task_;
  const HalfKernels& kernels_;
  bool is_vectorised_ = false;
  bool is_linear_ = false;  // rows of the output follow each other without a gap
  HalfStages stages_;
  std::vector<HalfSurface> surfaces_;
};

}  // namespace rk3588::sim
