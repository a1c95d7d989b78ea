#include "sim/trace.h"

#include <optional>

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

std::optional<Place> find(const Cube& cube, uint64_t address) {
  for (size_t s = 0; s < cube.surfaces.size(); ++s) {
    const AddressPattern& surface = cube.surfaces[s];
    if (address < surface.address || address >= surface.address + surface.bytes) continue;
    const uint64_t offset = address - surface.address;
    const uint64_t column = offset % cube.line_pitch;
    if (column >= uint64_t{cube.width} * kAtomBytes) return std::nullopt;
    const auto lane = static_cast<uint32_t>(column % kAtomBytes / (kAtomBytes / cube.lanes));
    return Place{static_cast<uint32_t>(s) * cube.lanes + lane,
                 static_cast<uint32_t>(offset / cube.line_pitch),
                 static_cast<uint32_t>(column / kAtomBytes)};
  }
  return std::nullopt;
}

// Where the probed element lies in the task's output, if it does.
std::optional<Place> find(const Cube& cube, const Probe& probe, const Position& where) {
  if (probe.task == Probe::kAnyTask) return find(cube, probe.address);
  if (probe.task != where.task || probe.channel >= cube.surfaces.size() * cube.lanes ||
      probe.y >= cube.height || probe.x >= cube.width) {
    return std::nullopt;
  }
  return Place{probe.channel, probe.y, probe.x};
}

void add_registers(const RegisterFile& registers, uint32_t mask, ElementTrace* trace) {
  for (const auto& [bit, block] :
       {std::pair{kEnableCna, Block::kCna}, std::pair{kEnableCore, Block::kCore},
        std::pair{kEnableDpu, Block::kDpu}, std::pair{kEnableDpuRdma, Block::kDpuRdma},
        std::pair{kEnablePpu, Block::kPpu}, std::pair{kEnablePpuRdma, Block::kPpuRdma}}) {
    if ((mask & bit) == 0) continue;
    const RegisterGroup& group = registers.current(block);
    for (const regs::Register& reg : regs::kRegisters) {
      Block owner;
      if (!block_of_target(reg.target, &owner) || owner != block) continue;
      if (!group.is_written(reg.offset)) continue;
      trace->registers.push_back({reg.name, group.value_or_zero(reg.offset)});
    }
    trace->groups.push_back({block_name(block), registers.group(block)});
  }
}

class Recorder {
 public:
  explicit Recorder(ElementTrace* trace) : trace_(trace) {}
  void add(const std::string& name, double value) { trace_->values.push_back({name, value}); }

 private:
  ElementTrace* trace_;
};

XStage only_alu(XStage x) {
  x.mul = Operand::kOff;
  x.relu = false;
  return x;
}

XStage only_mul(XStage x) {
  x.alu = Operand::kOff;
  x.relu = false;
  return x;
}

XStage only_relu(XStage x) {
  x.alu = Operand::kOff;
  x.mul = Operand::kOff;
  return x;
}

// One stage in its parts, by running it with the others switched off.
int32_t record_x(Recorder& r, const std::string& name, const XStage& x, int32_t value, int32_t alu,
                 int16_t mul) {
  if (x.alu != Operand::kOff) {
    r.add(name + ".ALU operand", alu);
    value = run_x_stage(only_alu(x), value, alu, mul);
    r.add(name + ".ALU", value);
  }
  if (x.mul != Operand::kOff) {
    r.add(name + ".MUL operand", mul);
    value = run_x_stage(only_mul(x), value, alu, mul);
    r.add(name + ".MUL", value);
  }
  if (x.relu) {
    value = run_x_stage(only_relu(x), value, alu, mul);
    r.add(name + ".RELU", value);
  }
  return value;
}

float record_x(Recorder& r, const std::string& name, const XStage& x, float value, int32_t alu,
               int16_t mul) {
  if (x.alu != Operand::kOff) {
    r.add(name + ".ALU operand", float_of_bits(static_cast<uint32_t>(alu)));
    value = run_x_stage_float(only_alu(x), value, alu, mul);
    r.add(name + ".ALU", value);
  }
  if (x.mul != Operand::kOff) {
    r.add(name + ".MUL operand", half_to_float(static_cast<uint16_t>(mul)));
    value = run_x_stage_float(only_mul(x), value, alu, mul);
    r.add(name + ".MUL", value);
  }
  if (x.relu) {
    value = run_x_stage_float(only_relu(x), value, alu, mul);
    r.add(name + ".RELU", value);
  }
  return value;
}

EwStage without_relu(EwStage ew) {
  ew.relu = false;
  return ew;
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

void record_integers(const TaskPlan& t, const Place& at, const ChannelOperands& ops, int32_t ew,
                     Recorder& r) {
  const DpuConfig& dpu = t.dpu;
  int32_t x;
  if (t.is_conv) {
    const Accumulated sum = accumulate(t.cna, t.feature, t.weights, at.channel, at.y, at.x);
    r.add("CORE.sum of products", sum.products);
    if (dpu.ow != Operand::kOff) {
      r.add("CORE.sum of inputs", sum.inputs);
      r.add("BS.OW operand", ops.ow);
    }
    x = finish_accumulator(t.core, sum, ops.ow);
    r.add("CORE.accumulator", x);
  } else {
    x = t.operands.main.element(at.channel, uint64_t{at.y} * dpu.width + at.x);
    r.add("DPU_RDMA.main operand", x);
  }
  x = record_x(r, "BS", dpu.bs, x, ops.bs_alu, ops.bs_mul);
  x = record_x(r, "BN", dpu.bn, x, dpu.bn.alu_operand, ops.bn_mul);
  if (dpu.ew.operation != EwOperation::kOff) {
    r.add("EW.operand", ew);
    r.add("EW.converted operand", convert_ew_operand(dpu.ew, ew));
    x = run_ew_stage(without_relu(dpu.ew), x, ew);
    r.add("EW", x);
  }
  if (dpu.ew.relu) {
    x = run_ew_stage(only_relu(dpu.ew), x, ew);
    r.add("EW.RELU", x);
  }
  if (dpu.lut.is_on) {
    x = look_up(dpu.lut, x);
    r.add("EW.LUT", x);
  }
  r.add("OUT_CVT.scaled", static_cast<double>(scale_output(dpu.out, x) - dpu.out.offset));
  r.add("OUT_CVT.with offset", static_cast<double>(scale_output(dpu.out, x)));
}

void record_floats(const TaskPlan& t, const Place& at, const ChannelOperands& ops, int32_t ew,
                   Recorder& r) {
  const DpuConfig& dpu = t.dpu;
  float x;
  if (t.is_conv) {
    x = accumulate_float(t.cna, t.feature, t.weights, at.channel, at.y, at.x);
    r.add("CORE.accumulator", x);
  } else {
    const int32_t bits = t.operands.main.element(at.channel, uint64_t{at.y} * dpu.width + at.x);
    x = half_to_float(static_cast<uint16_t>(bits));
    r.add("DPU_RDMA.main operand", x);
  }
  x = record_x(r, "BS", dpu.bs, x, ops.bs_alu, ops.bs_mul);
  x = record_x(r, "BN", dpu.bn, x, dpu.bn.alu_operand, ops.bn_mul);
  if (dpu.ew.operation != EwOperation::kOff) {
    x = run_ew_stage_float(without_relu(dpu.ew), x, ew);
    r.add("EW", x);
  }
  if (dpu.ew.relu) {
    x = run_ew_stage_float(only_relu(dpu.ew), x, ew);
    r.add("EW.RELU", x);
  }
  if (dpu.lut.is_on) {
    x = look_up_float(dpu.lut, x);
    r.add("EW.LUT", x);
  }
  r.add("OUT_CVT.scaled", scale_float(dpu.out, x));
}

uint32_t output_bits(const TaskPlan& t, const Place& at, const ChannelOperands& ops, int32_t ew) {
  if (t.dpu.computes_in_float()) {
    const float value = t.is_conv
                            ? accumulate_float(t.cna, t.feature, t.weights, at.channel, at.y, at.x)
                            : half_to_float(static_cast<uint16_t>(t.operands.main.element(
                                  at.channel, uint64_t{at.y} * t.dpu.width + at.x)));
    return run_float_element(t.dpu, ops, value, ew);
  }
  int32_t value;
  if (t.is_conv) {
    const Accumulated sum = accumulate(t.cna, t.feature, t.weights, at.channel, at.y, at.x);
    value = finish_accumulator(t.core, sum, ops.ow);
  } else {
    value = t.operands.main.element(at.channel, uint64_t{at.y} * t.dpu.width + at.x);
  }
  return run_integer_element(t.dpu, ops, value, ew);
}

ElementTrace start(const Position& where, const Cube& cube, const Place& at) {
  ElementTrace trace;
  trace.task = where.task;
  trace.layer = where.layer;
  trace.address = address_of(cube, at);
  trace.channel = at.channel;
  trace.y = at.y;
  trace.x = at.x;
  return trace;
}

}  // namespace

void trace_task(const TaskPlan& t, uint32_t enable_mask, const RegisterFile& registers,
                const Probe& probe, const Position& where, std::vector<ElementTrace>* traces) {
  const DpuConfig& dpu = t.dpu;
  Cube cube{{}, dpu.line_pitch, dpu.width, dpu.height, dpu.lanes};
  for (uint32_t s = 0; s < dpu.surfaces(); ++s) {
    cube.surfaces.push_back({dpu.dst + dpu.surface_offset(s),
                             (dpu.height - 1) * dpu.line_pitch + uint64_t{dpu.width} * kAtomBytes,
                             0, 1});
  }
  const std::optional<Place> at = find(cube, probe, where);
  if (!at) return;
  ElementTrace trace = start(where, cube, *at);
  Recorder r(&trace);
  if (t.is_conv) {
    r.add("CBUF.data banks", t.cna.cbuf.data_banks);
    r.add("CBUF.weight banks", t.cna.cbuf.weight_banks);
    r.add("CBUF.data bytes", static_cast<double>(t.cbuf_data_bytes));
    r.add("CBUF.weight bytes", static_cast<double>(t.cna.weights.bytes));
  }
  if (at->channel >= dpu.real_channels) {
    r.add("DPU.OFFSET_PEND", output_number(dpu.out_element, pend_bits(dpu)));
    trace.output = output_number(dpu.out_element, pend_bits(dpu));
  } else {
    const ChannelOperands ops = channel_operands(dpu, t.operands, at->channel);
    const int32_t ew = ew_operand_of(t, at->channel, uint64_t{at->y} * dpu.width + at->x);
    if (dpu.computes_in_float()) {
      record_floats(t, *at, ops, ew, r);
    } else {
      record_integers(t, *at, ops, ew, r);
    }
    trace.output = output_number(dpu.out_element, output_bits(t, *at, ops, ew));
  }
  add_registers(registers, enable_mask, &trace);
  traces->push_back(std::move(trace));
}

void trace_pooling(const PoolingConfig& c, const PoolingPlan& plan, uint32_t enable_mask,
                   const RegisterFile& registers, const Probe& probe, const Position& where,
                   std::vector<ElementTrace>* traces) {
  const uint32_t lanes = kAtomBytes / element_bytes(c.element);
  const Cube cube{plan.writes, c.dst_line_pitch, c.out_width, c.out_height, lanes};
  const std::optional<Place> at = find(cube, probe, where);
  if (!at) return;
  ElementTrace trace = start(where, cube, *at);
  Recorder r(&trace);
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
  trace.output = pool_element(c, plan, at->channel, at->y, at->x);
  add_registers(registers, enable_mask, &trace);
  traces->push_back(std::move(trace));
}

}  // namespace rk3588::sim
