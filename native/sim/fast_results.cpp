// Tasks of the DPU alone whose result depends on nothing but the number and its channel: tables and
// copies. Results of numbers are computed by the literal stages once, then looked up.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <type_traits>

#include "sim/dpu_element.h"
#include "sim/fast.h"
#include "sim/fast_float.h"

namespace rk3588::sim {
namespace {

// Elements from which on results of bytes, and of halves, cost less than they save.
constexpr uint64_t kWorthBytes = 1 << 10;
constexpr uint64_t kWorthHalves = 1 << 14;

// All that the results of a channel depend on.
struct Channel {
  ChannelOperands operands;
  int32_t ew = 0;

  Channel(const TaskPlan& task, uint32_t channel)
      : operands(channel_operands(task.dpu, task.operands, channel)),
        ew(ew_operand_of(task, channel, 0)) {}
  bool operator==(const Channel& other) const {
    const ChannelOperands& a = operands;
    const ChannelOperands& b = other.operands;
    return a.bs_alu == b.bs_alu && a.bs_mul == b.bs_mul && a.bn_alu == b.bn_alu &&
           a.bn_mul == b.bn_mul && ew == other.ew;
  }
};

// The results of all numbers in a channel: those of bytes at once, of halves when they are first
// asked for.
template <typename Number>
class Results {
 public:
  Results(const DpuConfig& dpu, const Channel& channel) : dpu_(dpu), channel_(channel) {
    if constexpr (kAreBytes) {
      for (size_t i = 0; i < kCount; ++i) results_[i] = result_of(static_cast<Number>(i));
    } else {
      results_.fill(kUnknown);
    }
  }
  const Channel& channel() const { return channel_; }
  // Of bytes: by number.
  const Number* all() const { return results_.data(); }
  Number of(Number number) {
    Kept& result = results_[number];
    if constexpr (!kAreBytes) {
      if (result == kUnknown) result = result_of(number);
    }
    return static_cast<Number>(result);
  }

 private:
  static constexpr bool kAreBytes = sizeof(Number) == 1;
  static constexpr size_t kCount = size_t{1} << 8 * sizeof(Number);
  using Kept = std::conditional_t<kAreBytes, Number, uint32_t>;
  static constexpr Kept kUnknown = static_cast<Kept>(-1);

  Kept result_of(Number number) const {
    if constexpr (kAreBytes) {
      const auto byte = static_cast<int8_t>(number);
      return static_cast<Kept>(run_integer_element(dpu_, channel_.operands, byte, channel_.ew));
    } else {
      return run_float_element(dpu_, channel_.operands, half_to_float(number), channel_.ew);
    }
  }

  const DpuConfig& dpu_;
  const Channel channel_;
  std::array<Kept, kCount> results_;
};

template <typename Number>
using Shared = std::shared_ptr<Results<Number>>;

bool is_identity(Results<uint8_t>& results) {
  for (int byte = 0; byte < 256; ++byte) {
    if (results.of(static_cast<uint8_t>(byte)) != byte) return false;
  }
  return true;
}

// The results of a surface's channels; lanes without one get OFFSET_PEND.
template <typename Number>
class SurfaceResults {
 public:
  // `known`: of some channel, or nullptr.
  SurfaceResults(const TaskPlan& task, uint32_t surface, const Shared<Number>& known)
      : pend_(static_cast<Number>(pend_bits(task.dpu))) {
    Shared<Number> last = known;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t channel = surface * kLanes + lane;
      if (channel >= task.dpu.real_channels) continue;
      const Channel own(task, channel);
      if (last == nullptr || !(last->channel() == own)) {
        last = std::make_shared<Results<Number>>(task.dpu, own);
      }
      lanes_[lane] = last;
    }
    is_one_ = std::all_of(lanes_.begin(), lanes_.end(), [&](const Shared<Number>& lane) {
      return lane != nullptr && lane == lanes_.front();
    });
    if constexpr (sizeof(Number) == 1) {
      is_copy_ = is_one_ && is_identity(*lanes_.front());
      pends_.fill(pend_);
      for (uint32_t i = 0; i < kLanes; ++i) {
        tables_[i] = lanes_[i] != nullptr ? lanes_[i]->all() : pends_.data();
      }
    }
  }

  void apply(const int8_t* in, size_t pixels, int8_t* out) const {
    if (is_copy_) {
      if (in != out) std::memmove(out, in, pixels * kAtomBytes);
      return;
    }
    if constexpr (sizeof(Number) == 1) {
      const size_t bytes = pixels * kAtomBytes;
      for (size_t i = 0; is_one_ && i < bytes; ++i) {
        out[i] = static_cast<int8_t>(tables_[0][static_cast<Number>(in[i])]);
      }
      for (size_t i = 0; !is_one_ && i < bytes; ++i) {
        out[i] = static_cast<int8_t>(tables_[i % kLanes][static_cast<Number>(in[i])]);
      }
      return;
    }
    Number numbers[kLanes];
    for (size_t p = 0; p < pixels; ++p, in += kAtomBytes, out += kAtomBytes) {
      std::memcpy(numbers, in, kAtomBytes);
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        numbers[lane] = lanes_[lane] != nullptr ? lanes_[lane]->of(numbers[lane]) : pend_;
      }
      std::memcpy(out, numbers, kAtomBytes);
    }
  }

 private:
  static constexpr uint32_t kLanes = kAtomBytes / sizeof(Number);

  Number pend_;
  std::array<Shared<Number>, kLanes> lanes_;
  std::array<const Number*, kLanes> tables_{};  // of bytes
  std::array<Number, 256> pends_{};
  bool is_one_ = false;
  bool is_copy_ = false;
};

template <typename Number>
void run_surfaces(const TaskPlan& task, ThreadPool& pool, const Shared<Number>& known) {
  const DpuConfig& dpu = task.dpu;
  const bool is_scattered = !dpu.writes_as_computed();
  const bool has_gaps = is_scattered || dpu.line_pitch != uint64_t{dpu.width} * kAtomBytes;
  pool.run(dpu.surfaces(), [&](size_t s) {
    const auto surface = static_cast<uint32_t>(s);
    const SurfaceResults<Number> results(task, surface, known);
    // A surface without a real channel is not read, so that any numbers do.
    const bool is_read = uint64_t{surface} * dpu.lanes < dpu.real_channels;
    const int8_t* in = task.operands.main.surface(is_read ? surface : 0);
    if (!has_gaps) {
      results.apply(in, size_t{dpu.height} * dpu.width, task.output_atom(surface, 0, 0));
      return;
    }
    const uint32_t step = is_scattered ? 1 : dpu.width;
    for (uint32_t y = 0; y < dpu.height; ++y) {
      for (uint32_t x = 0; x < dpu.width; x += step, in += size_t{step} * kAtomBytes) {
        results.apply(in, step, task.output_atom(surface, y, x));
      }
    }
  });
}

}  // namespace

bool run_by_number(const TaskPlan& task, ThreadPool& pool) {
  const DpuConfig& dpu = task.dpu;
  const uint64_t pixels = uint64_t{dpu.height} * dpu.width;
  if (task.is_conv || dpu.in != dpu.out_element || reads_pixels(task)) return false;
  if (dpu.computes_in_float()) {
    if (dpu.in != Element::kFp16 || pixels * dpu.real_channels < kWorthHalves) return false;
    // Results that are kept on the way are a thread's own.
    run_surfaces<uint16_t>(task, pool, nullptr);
    return true;
  }
  if (dpu.in != Element::kInt8 || dpu.proc != Element::kInt8) return false;
  const Channel first(task, 0);
  bool differ = false;
  for (uint32_t c = 1; c < dpu.real_channels && !differ; ++c) differ = !(Channel(task, c) == first);
  const uint64_t elements = differ ? pixels : pixels * dpu.real_channels;
  if (elements < kWorthBytes || (differ && !dpu.lut.is_on)) return false;
  const auto shared = std::make_shared<Results<uint8_t>>(dpu, first);
  // Any other task is faster as stages of 16 channels at once.
  if (!dpu.lut.is_on && !is_identity(*shared)) return false;
  run_surfaces<uint8_t>(task, pool, shared);
  return true;
}

}  // namespace rk3588::sim
