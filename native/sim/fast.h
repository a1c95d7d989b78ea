// The vectorised path: the same results as run_elements, by blocks of pixels and channels on
// several threads.
#pragma once

#include <vector>

#include "sim/kernels.h"
#include "sim/task.h"
#include "sim/thread_pool.h"

namespace rk3588::sim {

// Neighbouring pixels of a surface, from (y, x) of a task's output on, with their accumulators.
struct PixelRun {
  uint32_t surface;
  uint32_t y;
  uint32_t x;  // beyond the width: of a later row, where these follow each other without a gap
  size_t pixels;
  const int32_t* acc;
  size_t acc_stride;    // values per pixel
  const int32_t* sums;  // of the pixels' inputs; of no use where they contain the OW term
};

// Rows of output pixels that lie at equal distances in input and output: all of the tile as one row
// if there are no gaps.
struct PixelRows {
  uint32_t rows;
  uint32_t columns;
  size_t input_pitch;
};

// Memory that lives as long as the simulator: scratch, and weights in the kernels' order.
class FastPath {
 public:
  FastPath(Isa isa, ThreadPool& pool) : kernels_(kernels_for(isa)), pool_(pool) {}
  // Forgets what earlier runs left.
  void start_run() { has_packed_weights_ = false; }
  // Tasks whose numbers could leave what double precision holds exactly, or with other types than
  // int8, take the sums of the vectorised kernels through the literal stages.
  void run(const TaskPlan& task);

 private:
  void run_dense(const TaskPlan& task);
  void run_depthwise(const TaskPlan& task);
  void run_flying(const TaskPlan& task);
  void pack_weights(const TaskPlan& task);
  void sum_windows(const TaskPlan& task, const struct FeatureWindow& window);
  void write_pixels(const TaskPlan& task, const PixelRun& run);
  // Writes a surface, step by step: accumulate(row, column, pixels, acc) gives what goes in.
  template <typename Accumulate>
  void run_steps(const TaskPlan& task, uint32_t surface, const PixelRows& rows,
                 Accumulate accumulate);
  const Kernels& kernels_;
  ThreadPool& pool_;
  TaskStages stages_;
  bool literal_stages_ = false;  // one element after the other, from the kernels' sums
  bool folded_ow_ = false;       // the sums contain the OW term
  std::vector<SurfaceStages> surfaces_;
  std::vector<int8_t> window_memory_;
  std::vector<double> half_features_;  // of a dense task in fp16
  std::vector<uint8_t> packed_;
  bool has_packed_weights_ = false;
  std::vector<int16_t> depthwise_weights_;
  std::vector<int32_t> pixel_sums_;
  std::vector<int32_t> window_sums_;
};

// True if it did: a task of the DPU alone, of bytes or of halves, whose results depend on the
// number and its channel only (fast_results.cpp).
bool run_by_number(const TaskPlan& task, ThreadPool& pool);

// The input as the kernels walk over it: pixel (y, x) of the output starts at
// data + y * output_row_pitch + x * 16 and its taps lie tap_offsets() further.
// Columns are split by their rest modulo the horizontal stride, so that neighbouring output pixels
// always read neighbouring atoms; rows and columns of padding are there.
struct FeatureWindow {
  const int8_t* data = nullptr;
  uint32_t rows = 0;
  uint32_t columns = 0;  // of one phase
  size_t row_pitch = 0;
  size_t phase_pitch = 0;
  size_t surface_pitch = 0;
  size_t output_row_pitch = 0;
  bool is_linear = false;  // rows follow each other without a gap, one output pixel per atom

  // [surface][ky][kx] of the first surfaces.
  std::vector<ptrdiff_t> tap_offsets(const CnaConfig& cna, uint32_t surfaces) const;
};

// Points into the input itself where possible, else copies it to `memory`.
FeatureWindow make_window(const TaskPlan& task, ThreadPool& pool, std::vector<int8_t>* memory);

// The task's stages as numbers in double precision. False if they would not be exact; `surfaces`
// has its size nevertheless.
bool prepare_stages(const TaskPlan& task, bool fold_ow, TaskStages* stages,
                    std::vector<SurfaceStages>* surfaces);

}  // namespace rk3588::sim
