// fp16 tasks by blocks of pixels and channels on several threads; the same results as run_elements.
#pragma once

#include "sim/half_kernels.h"
#include "sim/task.h"
#include "sim/thread_pool.h"

namespace rk3588::sim {

// Input lanes of a group up to which the sums in double precision are exact.
inline constexpr uint32_t kMostInputLanes = 64;

// `memory` is the caller's to keep: what goes on being large needs no new pages.
void run_float(const TaskPlan& task, const HalfKernels& kernels, ThreadPool& pool,
               std::vector<double>* memory);

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
