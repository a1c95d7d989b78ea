// Tasks of the DPU alone whose result depends on nothing but the byte and its channel: tables and
// copies. All 256 results are computed by the literal stages, then looked up.
#include <algorithm>
#include <array>
#include <cstring>

#include "sim/dpu_element.h"
#include "sim/fast.h"
#include "sim/fast_float.h"

namespace rk3588::sim {
namespace {

using ByteMap = std::array<int8_t, 256>;

// Elements from which on 256 results cost less than they save.
constexpr uint64_t kWorthElements = 4 * std::tuple_size<ByteMap>::value;

bool takes_bytes(const TaskPlan& task) {
  const DpuConfig& dpu = task.dpu;
  return !task.is_conv && dpu.in == Element::kInt8 && dpu.proc == Element::kInt8 &&
         dpu.out_element == Element::kInt8 && !reads_pixels(task);
}

bool has_channel_operands(const TaskPlan& task) {
  const DpuConfig& dpu = task.dpu;
  const auto& values = dpu.ew.values;
  const bool differ = dpu.ew.operation != EwOperation::kOff &&
                      dpu.ew.source == Operand::kRegister &&
                      !std::equal(values.begin() + 1, values.end(), values.begin());
  const auto from_memory = [](const XStage& x) {
    return x.alu == Operand::kMemory || x.mul == Operand::kMemory;
  };
  return differ || from_memory(dpu.bs) || from_memory(dpu.bn) || !task.operands.ew_channels.empty();
}

ByteMap make_map(const TaskPlan& task, uint32_t channel) {
  ByteMap map;
  if (channel >= task.dpu.real_channels) {
    map.fill(task.dpu.pend);
    return map;
  }
  const ChannelOperands operands = channel_operands(task.dpu, task.operands, channel);
  const int32_t ew = ew_operand_of(task, channel, 0);
  for (int byte = 0; byte < 256; ++byte) {
    const uint32_t bits = run_integer_element(task.dpu, operands, static_cast<int8_t>(byte), ew);
    map[byte] = static_cast<int8_t>(bits);
  }
  return map;
}

bool is_identity(const ByteMap& map) {
  for (int byte = 0; byte < 256; ++byte) {
    if (map[byte] != static_cast<int8_t>(byte)) return false;
  }
  return true;
}

// One map per lane, or one for all of them.
class SurfaceMap {
 public:
  SurfaceMap(const TaskPlan& task, uint32_t surface, const ByteMap* shared) : shared_(shared) {
    const uint32_t first = surface * kAtomBytes;
    if (shared != nullptr && first + kAtomBytes <= task.dpu.real_channels) {
      is_copy_ = is_identity(*shared);
      return;
    }
    shared_ = nullptr;
    for (uint32_t lane = 0; lane < kAtomBytes; ++lane) lanes_[lane] = make_map(task, first + lane);
  }

  void apply(const int8_t* in, size_t pixels, int8_t* out) const {
    const size_t bytes = pixels * kAtomBytes;
    if (is_copy_) {
      if (in != out) std::memmove(out, in, bytes);
    } else if (shared_ != nullptr) {
      for (size_t i = 0; i < bytes; ++i) out[i] = (*shared_)[static_cast<uint8_t>(in[i])];
    } else {
      for (size_t i = 0; i < bytes; ++i) {
        out[i] = lanes_[i % kAtomBytes][static_cast<uint8_t>(in[i])];
      }
    }
  }

 private:
  const ByteMap* shared_;
  bool is_copy_ = false;
  std::array<ByteMap, kAtomBytes> lanes_;
};

}  // namespace

bool FastPath::run_byte_map(const TaskPlan& task) {
  const DpuConfig& dpu = task.dpu;
  const uint64_t pixels = uint64_t{dpu.height} * dpu.width;
  const bool by_channel = has_channel_operands(task);
  const uint64_t elements = by_channel ? pixels : pixels * dpu.real_channels;
  if (!takes_bytes(task) || elements < kWorthElements || (by_channel && !dpu.lut.is_on)) {
    return false;
  }
  const ByteMap shared = make_map(task, 0);
  // Any other task is faster as stages of 16 channels at once.
  if (!dpu.lut.is_on && !is_identity(shared)) return false;
  const bool has_gaps =
      !dpu.writes_as_computed() || dpu.line_pitch != uint64_t{dpu.width} * kAtomBytes;
  const bool is_scattered = !dpu.writes_as_computed();
  pool_.run(dpu.surfaces(), [&](size_t s) {
    const auto surface = static_cast<uint32_t>(s);
    const SurfaceMap map(task, surface, by_channel ? nullptr : &shared);
    // A surface without a real channel is not read; its map is constant, so that any byte does.
    const bool is_read = uint64_t{surface} * kAtomBytes < dpu.real_channels;
    const int8_t* in = task.operands.main.surface(is_read ? surface : 0);
    if (!has_gaps) {
      map.apply(in, pixels, task.output_atom(surface, 0, 0));
      return;
    }
    const uint32_t step = is_scattered ? 1 : dpu.width;
    for (uint32_t y = 0; y < dpu.height; ++y) {
      for (uint32_t x = 0; x < dpu.width; x += step, in += size_t{step} * kAtomBytes) {
        map.apply(in, step, task.output_atom(surface, y, x));
      }
    }
  });
  return true;
}

}  // namespace rk3588::sim
