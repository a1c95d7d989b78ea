// Ways to go wrong before the DPU: in reading features and weights, in CBUF, in the sums.
#include <algorithm>
#include <cstring>

#include "sim/deviation.h"

namespace rk3588::sim {
namespace {

constexpr unsigned kTransposedKinds = bit(TaskKind::kTransposed) | bit(TaskKind::kHalfTransposed);
// The others; of a plan zeros are between the pixels already.
constexpr unsigned kOthers = kConvs & ~kTransposedKinds;

// The task's weights, to be changed.
std::vector<int8_t>& own_weights(WorseTask& t) {
  TaskPlan& plan = t.plan;
  if (!plan.weight_bytes) {
    plan.weight_bytes = std::make_unique<std::vector<int8_t>>(t.weights());
    plan.weights = plan.weight_bytes->data();
  }
  return *plan.weight_bytes;
}

// Bytes of a whole group of kernels (depthwise: of channels).
size_t group_bytes(const CnaConfig& c) {
  const size_t taps = size_t{c.weights.kh} * c.weights.kw;
  return c.group() *
         (c.is_depthwise ? taps * element_bytes(c.element) : c.weights.bytes_per_kernel);
}

size_t whole_groups(const CnaConfig& c) {
  return (c.is_depthwise ? c.feature.channels : c.weights.kernels) / c.group();
}

bool keeps_weights(const WorseTask& t) { return t.plan.is_conv && t.plan.cna.cbuf.weight_reuse; }

bool streams_weights(const WorseTask& t) {
  const CnaConfig& c = t.plan.cna;
  return c.weights.bytes > uint64_t{c.cbuf.weight_banks} * c.chip->cbuf_bank_bytes;
}

void lose_kept_weights(WorseTask& t) {
  if (!keeps_weights(t) || !t.is_kicked) return;
  std::vector<int8_t>& weights = own_weights(t);
  std::fill(weights.begin(), weights.end(), int8_t{0});
}

void take_older_weights(WorseTask& t) {
  if (!keeps_weights(t)) return;
  std::vector<int8_t>& weights = own_weights(t);
  std::fill(weights.begin(), weights.end(), int8_t{0});
  take_over(&weights, t.left.older_weights);
}

void swap_groups(WorseTask& t) {
  const CnaConfig& c = t.plan.cna;
  const size_t groups = whole_groups(c);
  if (groups < 2) return;
  std::vector<int8_t>& weights = own_weights(t);
  const auto first = weights.begin();
  std::rotate(first, first + static_cast<ptrdiff_t>(group_bytes(c)),
              first + static_cast<ptrdiff_t>(groups * group_bytes(c)));
}

void lose_rest(WorseTask& t) {
  const size_t whole = whole_groups(t.plan.cna) * group_bytes(t.plan.cna);
  std::vector<int8_t>& weights = own_weights(t);
  if (whole < weights.size()) {
    std::fill(weights.begin() + static_cast<ptrdiff_t>(whole), weights.end(), int8_t{0});
  }
}

bool has_rest(const WorseTask& t) {
  const CnaConfig& c = t.plan.cna;
  return (c.is_depthwise ? c.feature.channels : c.weights.kernels) % c.group() != 0;
}

// Where zeros belong, the pixel before repeats.
void repeat_pixels(WorseTask& t) {
  CnaConfig& c = t.plan.cna;
  FeatureCube& f = c.feature;
  const uint32_t step = t.plan.cna.deconv.stride_w;
  int8_t* data = t.plan.expanded->data();
  for (uint32_t s = 0; s < f.surfaces(); ++s) {
    for (uint32_t y = 0; y < f.height; ++y) {
      int8_t* row = data + s * f.surface_pitch + y * f.line_pitch;
      for (uint32_t x = 1; x < f.width; ++x) {
        if (x % step == 0) continue;
        std::memcpy(row + size_t{x} * kAtomBytes, row + size_t{x - 1} * kAtomBytes, kAtomBytes);
      }
    }
  }
}

void add_cna_ways(const StageWays& cna) {
  cna.add("padding_of_zeros", kConvs, "pads with 0 whatever the value of padding is",
          [](WorseTask& t) {
            t.plan.cna.pad_even = t.plan.cna.pad_odd = 0;
            t.plan.cna.pad_half = 0;
          });
  cna.add("rows_packed", kOthers, "reads the rows of a narrower window as if they had no gap",
          [](WorseTask& t) {
            FeatureCube& f = t.plan.cna.feature;
            f.line_pitch = uint64_t{f.width} * kAtomBytes;
          });
  cna.add("dilation_ignored", kConvs, "has its taps side by side",
          [](WorseTask& t) { t.plan.cna.dilation_h = t.plan.cna.dilation_w = 1; });
  cna.add("pixels_repeated", kTransposedKinds, "repeats pixels where zeros belong", repeat_pixels);
  cna.add_setting("dilation", kConvs, "has taps apart", [](const WorseTask& t) {
    return t.plan.cna.dilation_h > 1 || t.plan.cna.dilation_w > 1;
  });
  cna.add_setting("window", kOthers, "reads rows with gaps between them", [](const WorseTask& t) {
    const FeatureCube& f = t.plan.cna.feature;
    return f.height > 1 && f.line_pitch != uint64_t{f.width} * kAtomBytes;
  });
}

void add_cbuf_ways(const StageWays& cbuf) {
  cbuf.add("kept_weights_lost", kConvs, "finds no kept weights if it is kicked by itself",
           lose_kept_weights);
  cbuf.add("kept_weights_stale", kConvs, "keeps the weights of the load before the last",
           take_older_weights);
  cbuf.add("result_behind_kept_weights_stale", kDpuTasks,
           "right behind one that keeps weights leaves memory as it was",
           [](WorseTask& t) { t.is_skipped |= t.left.kept_weights && !keeps_weights(t); });
  cbuf.add("groups_swapped", kConvs, "takes the kernels of the next group", swap_groups);
  cbuf.add("rest_of_kernels_zero", kConvs, "has no weights for kernels behind the last whole group",
           lose_rest);
  cbuf.add_setting("kept_weights", kConvs, "keeps weights", keeps_weights);
  cbuf.add_setting("streamed_weights", kConvs, "has more weights than their banks hold",
                   streams_weights);
  cbuf.add_setting("rest_of_kernels", kConvs, "has kernels behind the last whole group", has_rest);
}

void add_core_ways(const StageWays& core) {
  core.add("input_sums_ignored", kIntegerConvs, "does not add the sum of its inputs",
           [](WorseTask& t) { t.plan.dpu.ow = Operand::kOff; });
  core.add("shift_ignored", kIntegerConvs, "does not shift its sums",
           [](WorseTask& t) { t.plan.core.truncate = 0; });
  core.add_roundings(
      "", kIntegerConvs, "rounds its sums, if it shifts them,",
      [](WorseTask& t) { return &t.plan.core.ties; }, Ties::kAway);
  core.add_setting("input_sums", kIntegerConvs, "adds the sum of its inputs",
                   [](const WorseTask& t) { return t.plan.dpu.ow != Operand::kOff; });
  core.add_setting("input_sums_per_channel", kIntegerConvs,
                   "adds the sum of its inputs times a factor per channel",
                   [](const WorseTask& t) { return t.plan.dpu.ow == Operand::kMemory; });
}

}  // namespace

void add_input_ways(Ways* ways) {
  add_cna_ways({"cna", ways});
  add_cbuf_ways({"cbuf", ways});
  add_core_ways({"core", ways});
}

}  // namespace rk3588::sim
