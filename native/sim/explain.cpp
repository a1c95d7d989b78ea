#include "sim/explain.h"

#include "sim/dpu_element.h"
#include "sim/rounding.h"

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

// Values by the names of what gives them.
struct Recorder {
  std::vector<std::pair<std::string, double>>& values;

  void add(const std::string& name, double value) { values.emplace_back(name, value); }
};

template <typename Stage>
Stage without_relu(Stage stage) {
  stage.relu = {};
  return stage;
}

double operand_number(int32_t alu, int32_t) { return alu; }
double operand_number(int32_t alu, float) { return float_of_bits(static_cast<uint32_t>(alu)); }
double factor_number(int16_t mul, int32_t) { return mul; }
double factor_number(int16_t mul, float) { return half_to_float(static_cast<uint16_t>(mul)); }

const char* input_name(const TaskPlan& t) {
  return t.is_conv ? "CORE.accumulator" : "DPU_RDMA.main operand";
}

// BS or BN in its parts, by running it with the others switched off. BN's shift belongs to the sum,
// so that a product that meets a summand is shown before its shift.
template <typename Number>
Number record_x(Recorder& r, const std::string& name, const XStage& x, Number value, int32_t alu,
                int16_t mul) {
  const bool has_both = x.alu != Operand::kOff && x.mul != Operand::kOff;
  const double factor = factor_number(mul, value);
  const Number unclamped = run_x_stage(without_relu(x), value, alu, mul);
  const auto record_mul = [&] {
    if (x.mul == Operand::kOff) return;
    r.add(name + ".MUL operand", factor);
    if (has_both && x.multiplies_first) {
      r.add(name + ".product", static_cast<double>(value) * factor);
    } else {
      r.add(name + ".MUL", unclamped);
    }
  };
  if (x.multiplies_first) record_mul();
  if (x.alu != Operand::kOff) {
    XStage only_alu = without_relu(x);
    if (!x.multiplies_first) only_alu.mul = Operand::kOff;
    r.add(name + ".ALU operand", operand_number(alu, value));
    r.add(name + ".ALU", run_x_stage(only_alu, value, alu, mul));
  }
  if (!x.multiplies_first) record_mul();
  const Number result = run_x_stage(x, value, alu, mul);
  if (x.relu.is_on) r.add(name + ".RELU", result);
  return result;
}

EwStage only_relu(EwStage ew) {
  ew.operation = EwOperation::kOff;
  return ew;
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

// The stages behind the sum or the main operand; what OUT_CVT takes.
template <typename Number>
Number record_stages(const DpuConfig& dpu, Number x, const ChannelOperands& ops, int32_t ew,
                     Recorder& r) {
  x = record_x(r, "BS", dpu.bs, x, ops.bs_alu, ops.bs_mul);
  x = record_x(r, "BN", dpu.bn, x, ops.bn_alu, ops.bn_mul);
  if (dpu.lut.is_on) {
    x = look_up(dpu.lut, x);
    r.add("EW.LUT", x);
  }
  if (dpu.ew.operation != EwOperation::kOff) {
    if (!dpu.computes_in_float()) {
      r.add("EW.operand", ew);
      r.add("EW.converted operand", convert_ew_operand(dpu.ew, ew));
    }
    x = run_ew_stage(without_relu(dpu.ew), x, ew);
    r.add("EW", x);
  }
  if (dpu.ew.relu.is_on) {
    x = run_ew_stage(only_relu(dpu.ew), x, ew);
    r.add("EW.RELU", x);
  }
  return x;
}

void record_integers(const TaskPlan& t, const Place& at, const ChannelOperands& ops, int32_t ew,
                     Recorder& r) {
  const DpuConfig& dpu = t.dpu;
  int32_t x = integer_input(t, ops, at.channel, at.y, at.x);
  if (t.is_conv) {
    const Accumulated sum = accumulate(t.cna, t.feature, t.weights, at.channel, at.y, at.x);
    r.add("CORE.sum of products", sum.products);
    if (dpu.ow != Operand::kOff) {
      r.add("CORE.sum of inputs", sum.inputs);
      r.add("BS.OW operand", ops.ow);
    }
  }
  r.add(input_name(t), x);
  x = record_stages(dpu, x, ops, ew, r);
  r.add("OUT_CVT.scaled", static_cast<double>(scale_output(dpu.out, x) - dpu.out.offset));
  r.add("OUT_CVT.with offset", static_cast<double>(scale_output(dpu.out, x)));
}

void record_floats(const TaskPlan& t, const Place& at, const ChannelOperands& ops, int32_t ew,
                   Recorder& r) {
  float x = float_input(t, at.channel, at.y, at.x);
  r.add(input_name(t), x);
  x = record_stages(t.dpu, x, ops, ew, r);
  r.add("OUT_CVT.scaled", scale_float(t.dpu, x));
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
  Recorder r{write.values};
  if (t.is_conv) {
    r.add("CBUF.data banks", t.cna.cbuf.data_banks);
    r.add("CBUF.weight banks", t.cna.cbuf.weight_banks);
    r.add("CBUF.data bytes", static_cast<double>(t.cbuf_data_bytes));
    r.add("CBUF.weight bytes", static_cast<double>(t.cna.weights.bytes));
  }
  if (at->channel >= dpu.real_channels) {
    r.add("DPU.OFFSET_PEND", output_number(dpu.out_element, pend_bits(dpu)));
    write.output = output_number(dpu.out_element, pend_bits(dpu));
  } else {
    const ChannelOperands ops = channel_operands(dpu, t.operands, at->channel);
    const int32_t ew = ew_operand_of(t, at->channel, uint64_t{at->y} * dpu.width + at->x);
    if (dpu.computes_in_float()) {
      record_floats(t, *at, ops, ew, r);
    } else {
      record_integers(t, *at, ops, ew, r);
    }
    write.output = output_number(dpu.out_element, run_element(t, ops, at->channel, at->y, at->x));
  }
  add_registers(registers, enable_mask, &write);
  return write;
}

std::optional<ElementWrite> explain_pooling(const PoolingConfig& c, const PoolingPlan& plan,
                                            uint32_t enable_mask, const RegisterFile& registers,
                                            const Probe& probe, const Position& where) {
  const uint32_t lanes = kAtomBytes / element_bytes(c.element);
  const Cube cube{plan.writes, c.dst_line_pitch, c.out_width, c.out_height, lanes};
  const std::optional<Place> at =
      probe.task == Probe::kAnyTask
          ? find(cube, probe.address)
          : named_place({c.surfaces * lanes, c.out_height, c.out_width}, probe, where);
  if (!at) return std::nullopt;
  ElementWrite write = start(where, address_of(cube, *at), *at);
  Recorder r{write.values};
  const uint32_t bytes = kAtomBytes / lanes;
  for (uint32_t k = 0; k < c.kernel_h * c.kernel_w; ++k) {
    const int64_t y = int64_t{at->y} * c.stride_h + k / c.kernel_w - c.pad_top;
    const int64_t x = int64_t{at->x} * c.stride_w + k % c.kernel_w - c.pad_left;
    const std::string name = "PPU.input at " + std::to_string(y) + ", " + std::to_string(x);
    if (y < 0 || y >= c.in_height || x < 0 || x >= c.in_width) {
      r.add(name + " (padding)", static_cast<double>(c.pad_value));
      continue;
    }
    const uint8_t* atom = plan.inputs[at->channel / lanes] + y * c.src_line_pitch + x * kAtomBytes;
    const int32_t value = load_element(atom + at->channel % lanes * bytes, bytes);
    r.add(name, output_number(c.element, static_cast<uint32_t>(value)));
  }
  write.output = pool_element(c, plan, at->channel, at->y, at->x);
  add_registers(registers, enable_mask, &write);
  return write;
}

}  // namespace rk3588::sim
