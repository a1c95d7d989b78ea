#include "sim/fast.h"

#include <algorithm>
#include <cstring>

#include "sim/dpu_element.h"
#include "sim/fast_float.h"
#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

// Work items per thread, so that uneven items even out.
constexpr size_t kItemsPerThread = 4;
// Pixels of a depthwise or element-wise step: their accumulators stay in the first cache.
constexpr size_t kStepPixels = 64;
static_assert(kTilePixels <= kStepPixels);
// Surfaces of int8 that a tile of the dense kernels covers.
constexpr size_t kTileSurfaces = kTileChannels / kAtomBytes;

PixelRows pixel_rows(const TaskPlan& task, bool input_is_linear, size_t input_pitch) {
  const DpuConfig& dpu = task.dpu;
  const bool is_linear = input_is_linear && (!dpu.writes_as_computed() ||
                                             dpu.line_pitch == uint64_t{dpu.width} * kAtomBytes);
  if (is_linear) return {1, dpu.height * dpu.width, input_pitch};
  return {dpu.height, dpu.width, input_pitch};
}

// OW terms can be part of the depthwise weights while weight + OW and the sums keep to their types.
bool can_fold_ow(const TaskPlan& task) {
  const DpuConfig& dpu = task.dpu;
  if (dpu.ow == Operand::kOff) return true;
  int64_t largest = std::abs(int64_t{dpu.ow_operand});
  if (dpu.ow == Operand::kMemory) {
    largest = 0;
    for (const int16_t ow : task.operands.bs.ow) largest = std::max(largest, std::abs(int64_t{ow}));
  }
  largest += 128;
  const int64_t taps = int64_t{task.cna.weights.kh} * task.cna.weights.kw;
  return largest <= INT16_MAX && largest * 128 * taps <= INT32_MAX;
}

}  // namespace

void FastPath::run(const TaskPlan& task) {
  // New weights replace the old ones in CBUF; the dense path packs them again.
  if (task.is_conv && !task.cna.cbuf.weight_reuse) has_packed_weights_ = false;
  const bool depthwise = task.is_conv && task.cna.is_depthwise;
  if (task.dpu.computes_in_float()) {
    run_float(task, *kernels_.half, pool_, &half_features_);
    return;
  }
  if (run_by_number(task, pool_)) return;
  if (depthwise && !can_fold_ow(task)) {
    run_elements(task, pool_);
    return;
  }
  folded_ow_ = depthwise;
  literal_stages_ = !prepare_stages(task, depthwise, &stages_, &surfaces_);
  if (literal_stages_ && !task.is_conv) {
    run_elements(task, pool_);
    return;
  }
  if (depthwise) {
    run_depthwise(task);
  } else if (task.is_conv) {
    run_dense(task);
  } else {
    run_flying(task);
  }
}

// Stages and store. Surfaces that no channel has get the pad value.
void FastPath::write_pixels(const TaskPlan& task, const PixelRun& run) {
  const DpuConfig& dpu = task.dpu;
  const uint64_t pixel = uint64_t{run.y} * dpu.width + run.x;
  if (literal_stages_) {
    const auto bits = [&](const ChannelOperands& operands, const ElementPlace& at) {
      const Accumulated sum{run.acc[at.run * run.acc_stride + at.lane],
                            folded_ow_ ? 0 : run.sums[at.run]};
      return run_integer_element(task.dpu, operands,
                                 finish_accumulator(task.core, sum, operands.ow),
                                 ew_operand_of(task, at.channel, at.pixel));
    };
    return store_elements(task, run.surface * kAtomBytes, kAtomBytes, pixel, run.pixels, bits);
  }
  // Where the writer lays the cube out anew, pixel by pixel.
  alignas(64) int8_t staged[kStepPixels * kAtomBytes];
  const bool is_staged = !dpu.writes_as_computed();
  int8_t* out = is_staged ? staged : task.output_atom(run.surface, run.y, run.x);
  if (run.surface >= surfaces_.size()) {
    std::memset(out, dpu.pend, run.pixels * kAtomBytes);
  } else {
    const int8_t* ew =
        stages_.ew_per_pixel ? task.operands.ew.surface(run.surface) + pixel * kAtomBytes : nullptr;
    kernels_.stages(stages_, surfaces_[run.surface], run.acc, run.acc_stride, run.sums, ew, out,
                    run.pixels);
  }
  for (size_t i = 0; is_staged && i < run.pixels; ++i) {
    const auto place = static_cast<uint32_t>(pixel + i);
    std::memcpy(task.output_atom(run.surface, place / dpu.width, place % dpu.width),
                staged + i * kAtomBytes, kAtomBytes);
  }
}

void FastPath::pack_weights(const TaskPlan& task) {
  if (has_packed_weights_) return;
  const WeightBlock& w = task.cna.weights;
  const uint32_t surfaces = task.cna.feature.surfaces();
  const size_t taps = size_t{w.kh} * w.kw;
  const size_t groups = ceil_div(task.dpu.channels, kTileChannels);
  const uint32_t kernels = task.cna.group();
  packed_.resize(groups * surfaces * taps * kernels_.packed_block_bytes);
  pool_.run(groups, [&](size_t group) {
    const uint32_t first = static_cast<uint32_t>(group) * kTileChannels;
    const uint32_t rows =
        first < w.kernels ? std::min<uint32_t>(kTileChannels, w.kernels - first) : 0;
    int8_t block[kTileChannels * kAtomBytes];
    uint8_t* out = packed_.data() + group * surfaces * taps * kernels_.packed_block_bytes;
    for (uint32_t s = 0; s < surfaces; ++s) {
      const auto i = static_cast<uint32_t>(s * kAtomBytes);
      for (uint32_t ky = 0; ky < w.kh; ++ky) {
        for (uint32_t kx = 0; kx < w.kw; ++kx, out += kernels_.packed_block_bytes) {
          // The tile's kernels may be of several groups, in each of which they follow each other.
          for (uint32_t o = 0, end = 0; o < rows; o = end) {
            end = std::min(rows, o + kernels - (first + o) % kernels);
            const uint64_t offset = weight_offset(task.cna, first + o, i, ky, kx);
            const uint64_t pitch = weight_offset(task.cna, first + o + 1, i, ky, kx) - offset;
            for (uint32_t k = o; k < end; ++k) {
              std::memcpy(block + k * kAtomBytes, task.weights + offset + (k - o) * pitch,
                          kAtomBytes);
            }
          }
          kernels_.pack(block, kAtomBytes, static_cast<int>(rows), out);
        }
      }
    }
  });
  has_packed_weights_ = true;
}

// The sum of the inputs under the window, per output pixel.
void FastPath::sum_windows(const TaskPlan& task, const FeatureWindow& window) {
  const CnaConfig& cna = task.cna;
  const size_t out_pixels = size_t{cna.out_height} * cna.out_width;
  window_sums_.resize(out_pixels);
  if (window.is_linear && cna.weights.kh == 1 && cna.weights.kw == 1) {
    kernels_.sum(window.data, window.surface_pitch, cna.feature.surfaces(), out_pixels,
                 window_sums_.data());
    return;
  }
  // First per input pixel, then over the taps.
  const size_t atoms = size_t{window.columns} * (window.phase_pitch != 0 ? cna.stride_w : 1);
  pixel_sums_.resize(window.rows * atoms);
  for (uint32_t y = 0; y < window.rows; ++y) {
    kernels_.sum(window.data + y * window.row_pitch, window.surface_pitch, cna.feature.surfaces(),
                 atoms, pixel_sums_.data() + y * atoms);
  }
  std::fill(window_sums_.begin(), window_sums_.end(), 0);
  for (uint32_t y = 0; y < cna.out_height; ++y) {
    int32_t* out = window_sums_.data() + size_t{y} * cna.out_width;
    for (uint32_t ky = 0; ky < cna.weights.kh; ++ky) {
      const size_t row = (size_t{y} * cna.stride_h + ky * cna.dilation_h) * atoms;
      for (uint32_t kx = 0; kx < cna.weights.kw; ++kx) {
        const uint32_t column = kx * cna.dilation_w;
        const int32_t* sums = pixel_sums_.data() + row +
                              column % cna.stride_w * size_t{window.columns} +
                              column / cna.stride_w;
        for (uint32_t x = 0; x < cna.out_width; ++x) out[x] += sums[x];
      }
    }
  }
}

void FastPath::run_dense(const TaskPlan& task) {
  const CnaConfig& cna = task.cna;
  pack_weights(task);
  const FeatureWindow window = make_window(task, pool_, &window_memory_);
  sum_windows(task, window);
  const std::vector<ptrdiff_t> offsets = window.tap_offsets(cna, cna.feature.surfaces());
  const PixelRows rows = pixel_rows(task, window.is_linear, window.output_row_pitch);
  const size_t tiles_per_row = ceil_div(rows.columns, kTilePixels);
  const size_t tiles = rows.rows * tiles_per_row;
  const size_t groups = ceil_div(task.dpu.channels, kTileChannels);
  const size_t surfaces = ceil_div(task.dpu.channels, kAtomBytes);
  const size_t wanted = ceil_div(kItemsPerThread * pool_.threads(), groups);
  const size_t chunk = pool_.threads() == 1 ? tiles : std::max<size_t>(1, ceil_div(tiles, wanted));
  const size_t chunks = ceil_div(tiles, chunk);
  pool_.run(groups * chunks, [&](size_t item) {
    const size_t group = item / chunks;
    const size_t first = item % chunks * chunk;
    const uint8_t* weights = packed_.data() + group * offsets.size() * kernels_.packed_block_bytes;
    alignas(64) int32_t acc[kTilePixels * kTileChannels];
    for (size_t tile = first; tile < std::min(tiles, first + chunk); ++tile) {
      const size_t row = tile / tiles_per_row;
      const size_t begin = tile % tiles_per_row * rows.columns / tiles_per_row;
      const size_t end = (tile % tiles_per_row + 1) * rows.columns / tiles_per_row;
      const int32_t* sums = window_sums_.data() + row * rows.columns + begin;
      kernels_.dense(window.data + row * rows.input_pitch + begin * kAtomBytes, offsets.data(),
                     offsets.size(), weights, sums, acc, static_cast<int>(end - begin));
      const size_t surface = group * kTileSurfaces;
      for (size_t s = 0; s < std::min(kTileSurfaces, surfaces - surface); ++s) {
        write_pixels(task, {static_cast<uint32_t>(surface + s), static_cast<uint32_t>(row),
                            static_cast<uint32_t>(begin), end - begin, acc + s * kAtomBytes,
                            kTileChannels, sums});
      }
    }
  });
}

template <typename Accumulate>
void FastPath::run_steps(const TaskPlan& task, uint32_t surface, const PixelRows& rows,
                         Accumulate accumulate) {
  alignas(64) int32_t acc[kStepPixels * kAtomBytes] = {};
  for (uint32_t row = 0; row < rows.rows; ++row) {
    for (size_t x = 0; x < rows.columns; x += kStepPixels) {
      const size_t pixels = std::min(kStepPixels, rows.columns - x);
      accumulate(row, x, pixels, acc);
      write_pixels(task,
                   {surface, row, static_cast<uint32_t>(x), pixels, acc, kAtomBytes, nullptr});
    }
  }
}

void FastPath::run_depthwise(const TaskPlan& task) {
  const CnaConfig& cna = task.cna;
  const size_t taps = size_t{cna.weights.kh} * cna.weights.kw;
  const uint32_t channels = cna.feature.channels;
  // Blocks of 16 channels, whatever the output's surfaces hold.
  const size_t blocks = ceil_div(task.dpu.channels, kAtomBytes);
  depthwise_weights_.assign(blocks * taps * kAtomBytes, 0);
  for (uint32_t c = 0; c < channels; ++c) {
    int32_t ow = 0;
    if (task.dpu.ow == Operand::kRegister) ow = task.dpu.ow_operand;
    if (task.dpu.ow == Operand::kMemory) ow = task.operands.bs.ow[c];
    int16_t* out = depthwise_weights_.data() + c / kAtomBytes * taps * kAtomBytes + c % kAtomBytes;
    for (uint32_t ky = 0; ky < cna.weights.kh; ++ky) {
      for (uint32_t kx = 0; kx < cna.weights.kw; ++kx, out += kAtomBytes) {
        const uint64_t offset = weight_offset(cna, c, c, ky, kx);
        *out = static_cast<int16_t>(task.weights[offset] + ow);
      }
    }
  }
  const FeatureWindow window = make_window(task, pool_, &window_memory_);
  const std::vector<ptrdiff_t> offsets = window.tap_offsets(cna, 1);
  const PixelRows rows = pixel_rows(task, window.is_linear, window.output_row_pitch);
  pool_.run(blocks, [&](size_t s) {
    const auto surface = static_cast<uint32_t>(s);
    const int16_t* weights = depthwise_weights_.data() + s * taps * kAtomBytes;
    // Whole groups are written; surfaces beyond the input have no kernels.
    const bool has_input = surface < cna.feature.surfaces();
    run_steps(task, surface, rows, [&](uint32_t row, size_t x, size_t pixels, int32_t* acc) {
      if (!has_input) return;
      const int8_t* input =
          window.data + s * window.surface_pitch + row * rows.input_pitch + x * kAtomBytes;
      kernels_.depthwise(input, offsets.data(), taps, weights, acc, pixels);
    });
  });
}

void FastPath::run_flying(const TaskPlan& task) {
  const PixelRows rows = pixel_rows(task, true, size_t{task.dpu.width} * kAtomBytes);
  pool_.run(task.dpu.surfaces(), [&](size_t s) {
    const auto surface = static_cast<uint32_t>(s);
    run_steps(task, surface, rows, [&](uint32_t row, size_t x, size_t pixels, int32_t* acc) {
      if (surface >= surfaces_.size()) return;
      const int8_t* main =
          task.operands.main.surface(surface) + (row * rows.columns + x) * kAtomBytes;
      for (size_t i = 0; i < pixels * kAtomBytes; ++i) acc[i] = main[i];
    });
  });
}

}  // namespace rk3588::sim
