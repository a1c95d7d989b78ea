// "Why is this byte 17?": the values of every stage for one output element.
#include "sim/dpu_element.h"
#include "sim/executor.h"

namespace rk3588::sim {
namespace {

struct Place {
  uint32_t channel = 0;
  uint32_t y = 0;
  uint32_t x = 0;
};

// An output: surfaces with rows of pixels.
struct Cube {
  std::vector<AddressPattern> surfaces;
  uint64_t line_pitch = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t lanes = 0;  // elements per atom
};

uint64_t address_of(const Cube& cube, const Place& at) {
  return cube.surfaces[at.channel / cube.lanes].address + at.y * cube.line_pitch +
         uint64_t{at.x} * kAtomBytes + at.channel % cube.lanes * (kAtomBytes / cube.lanes);
}

uint64_t address_of(const DpuConfig& dpu, const Place& at) {
  return dpu.dst + dpu.atom_offset(at.channel / dpu.lanes, at.y, at.x) +
         at.channel % dpu.lanes * (kAtomBytes / dpu.lanes);
}

std::optional<Place> find(const Cube& cube, uint64_t address) {
  for (size_t s = 0; s < cube.surfaces.size(); ++s) {
    const AddressPattern& surface = cube.surfaces[s];
    if (address < surface.address || address >= surface.address + surface.bytes) continue;
    const uint64_t offset = address - surface.address;
    const uint64_t column = offset % cube.line_pitch;
    // Surfaces may lie in each other's gaps.
    if (column >= uint64_t{cube.width} * kAtomBytes) continue;
    const auto lane = static_cast<uint32_t>(column % kAtomBytes / (kAtomBytes / cube.lanes));
    return Place{static_cast<uint32_t>(s) * cube.lanes + lane,
                 static_cast<uint32_t>(offset / cube.line_pitch),
                 static_cast<uint32_t>(column / kAtomBytes)};
  }
  return std::nullopt;
}

// The place that a probe of this task names, if `size` (channels, height, width) has it.
std::optional<Place> named_place(const Place& size, const Probe& probe, const Position& where) {
  if (probe.task != where.task || probe.channel >= size.channel || probe.y >= size.y ||
      probe.x >= size.x) {
    return std::nullopt;
  }
  return Place{probe.channel, probe.y, probe.x};
}

// The place of an element as it is computed, from where the writer puts it.
Place computed_place(const DpuConfig& dpu, const Place& written) {
  if (dpu.writes_as_computed()) return written;
  const uint32_t surface = written.channel / dpu.lanes;
  const uint64_t group = surface / dpu.surfaces_per_group;
  const uint64_t pixel = (group * dpu.write_height + written.y) * dpu.write_width + written.x;
  const uint64_t row = pixel / dpu.width;
  const auto computed = static_cast<uint32_t>(row / dpu.height * dpu.surfaces_per_group +
                                              surface % dpu.surfaces_per_group);
  return {computed * dpu.lanes + written.channel % dpu.lanes,
          static_cast<uint32_t>(row % dpu.height), static_cast<uint32_t>(pixel % dpu.width)};
}

std::optional<Place> find(const TaskPlan& t, const Probe& probe, const Position& where) {
  const DpuConfig& dpu = t.dpu;
  if (probe.task != Probe::kAnyTask) {
    return named_place({dpu.channels, dpu.height, dpu.width}, probe, where);
  }
  const Cube cube{t.writes, dpu.line_pitch, dpu.write_width, dpu.write_height, dpu.lanes};
  const std::optional<Place> written = find(cube, probe.address);
  if (!written) return std::nullopt;
  return computed_place(dpu, *written);
}

void add_registers(const RegisterFile& registers, uint32_t mask, ElementWrite* write) {
  for (const Block block : kBlocks) {
    if (!starts(mask, block)) continue;
    const RegisterGroup& group = registers.current(block);
    for (const regs::Register& reg : registers.known()) {
      Block owner;
      if (!block_of_target(reg.target, &owner) || owner != block) continue;
      if (!group.is_written(reg.offset)) continue;
      write->registers.push_back({reg.name, group.value_or_zero(reg.offset)});
    }
    write->groups.push_back({block_name(block), registers.group(block)});
  }
}

double output_number(Element e, uint32_t bits) {
  switch (e) {
    case Element::kInt8:
      return static_cast<int8_t>(bits);
    case Element::kInt16:
      return static_cast<int16_t>(bits);
    case Element::kInt32:
      return static_cast<int32_t>(bits);
    case Element::kFp16:
      return half_to_float(static_cast<uint16_t>(bits));
    default:
      return float_of_bits(bits);
  }
}

ElementWrite start(const Position& where, uint64_t address, const Place& at) {
  ElementWrite write;
  write.task = where.task;
  write.layer = where.layer;
  write.address = address;
  write.channel = at.channel;
  write.y = at.y;
  write.x = at.x;
  return write;
}

}  // namespace

std::optional<ElementWrite> explain_task(const TaskPlan& t, uint32_t enable_mask,
                                         const RegisterFile& registers, const Probe& probe,
                                         const Position& where) {
  const DpuConfig& dpu = t.dpu;
  const std::optional<Place> at = find(t, probe, where);
  if (!at) return std::nullopt;
  ElementWrite write = start(where, address_of(dpu, *at), *at);
  if (t.is_conv) {
    write.values = {{"CBUF.data banks", t.cna.cbuf.data_banks},
                    {"CBUF.weight banks", t.cna.cbuf.weight_banks},
                    {"CBUF.data bytes", static_cast<double>(t.cbuf_data_bytes)},
                    {"CBUF.weight bytes", static_cast<double>(t.cna.weights.bytes)}};
  }
  const bool is_real = at->channel < dpu.real_channels;
  ChannelOperands operands;
  if (is_real) operands = channel_operands(dpu, t.operands, at->channel);
  const uint32_t bits =
      is_real ? run_element(t, operands, at->channel, at->y, at->x, &write.values) : pend_bits(dpu);
  write.output = output_number(dpu.out_element, bits);
  if (!is_real) write.values.emplace_back("DPU.OFFSET_PEND", write.output);
  add_registers(registers, enable_mask, &write);
  return write;
}

std::optional<ElementWrite> explain_task(const PoolingPlan& plan, uint32_t enable_mask,
                                         const RegisterFile& registers, const Probe& probe,
                                         const Position& where) {
  const PoolingConfig& c = plan.config;
  const uint32_t lanes = kAtomBytes / element_bytes(c.element);
  const Cube cube{plan.writes, c.dst_line_pitch, c.out_width, c.out_height, lanes};
  const std::optional<Place> at =
      probe.task == Probe::kAnyTask
          ? find(cube, probe.address)
          : named_place({c.surfaces * lanes, c.out_height, c.out_width}, probe, where);
  if (!at) return std::nullopt;
  ElementWrite write = start(where, address_of(cube, *at), *at);
  const uint32_t bytes = kAtomBytes / lanes;
  for (uint32_t k = 0; k < c.kernel_h * c.kernel_w; ++k) {
    const int64_t y = int64_t{at->y} * c.stride_h + k / c.kernel_w - c.pad_top;
    const int64_t x = int64_t{at->x} * c.stride_w + k % c.kernel_w - c.pad_left;
    const std::string name = "PPU.input at " + std::to_string(y) + ", " + std::to_string(x);
    if (y < 0 || y >= c.in_height || x < 0 || x >= c.in_width) {
      write.values.emplace_back(name + " (padding)", static_cast<double>(c.pad_value));
      continue;
    }
    const uint8_t* atom = plan.inputs[at->channel / lanes] + y * c.src_line_pitch + x * kAtomBytes;
    const int32_t value = load_element(atom + at->channel % lanes * bytes, bytes);
    write.values.emplace_back(name, output_number(c.element, static_cast<uint32_t>(value)));
  }
  write.output = pool_element(plan, at->channel, at->y, at->x);
  add_registers(registers, enable_mask, &write);
  return write;
}

}  // namespace rk3588::sim
