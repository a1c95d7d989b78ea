#include "sim/executor.h"

#include <algorithm>

#include "sim/task.h"

namespace rk3588::sim {
namespace {

void check_enable(uint32_t mask, const Position& where) {
  if (is_known_mask(mask)) return;
  raise(fault::kBadEnableMask, where, "ENABLE.OPERATION_ENABLE", "mask ", hex(mask),
        " starts no known set of blocks; known are 0x1d (convolution), 0x0d "
        "(without DPU_RDMA), 0x18 (element-wise) and 0x60 (pooling)");
}

uint64_t row_bytes_of(const CnaConfig& c) {
  if (!c.packed.is_on) return uint64_t{c.feature.width} * kAtomBytes;
  return uint64_t{c.feature.width} * c.packed.channels * element_bytes(c.element);
}

// The rows of each surface as one range.
std::vector<AddressPattern> feature_ranges(const CnaConfig& c) {
  const FeatureCube& f = c.feature;
  const uint64_t bytes = (f.height - 1) * f.line_pitch + row_bytes_of(c);
  std::vector<AddressPattern> ranges;
  for (uint32_t s = 0; s < f.surfaces(); ++s) {
    ranges.push_back({f.address + s * f.surface_pitch, bytes, 0, 1});
  }
  return ranges;
}

// The memory of each of the writer's surfaces, group by group.
std::vector<AddressPattern> output_ranges(const DpuConfig& d) {
  std::vector<AddressPattern> ranges;
  uint64_t left = d.write_pixels();
  for (uint64_t group = 0; group < d.write_groups(); ++group) {
    const uint64_t pixels = std::min<uint64_t>(left, uint64_t{d.write_height} * d.write_width);
    const uint64_t rows = ceil_div(pixels, d.write_width);
    const uint64_t bytes =
        (rows - 1) * d.line_pitch + (pixels - (rows - 1) * d.write_width) * kAtomBytes;
    left -= pixels;
    for (uint64_t s = 0; s < d.surfaces_per_group; ++s) {
      ranges.push_back({d.dst + group * d.group_pitch + s * d.surface_pitch, bytes, 0, 1});
    }
  }
  return ranges;
}

// Copies features that lie where the task writes: all rows are in CBUF when it begins to compute.
void hold_features(const Position& where, const char* reg, TaskPlan* plan) {
  const FeatureCube& f = plan->cna.feature;
  if (plan->cna.grains < f.height) {
    raise(fault::kOutputOverlap, where, reg, "the output overwrites input features of which ",
          plan->cna.grains, " rows of ", f.height,
          " (CNA.CONV_CON2.FEATURE_GRAINS) are fetched before, so that what is read is in doubt");
  }
  if (!plan->expanded->empty()) return;
  const uint64_t bytes = (f.surfaces() - 1) * f.surface_pitch + (f.height - 1) * f.line_pitch +
                         uint64_t{f.width} * kAtomBytes;
  plan->expanded->assign(plan->feature, plan->feature + bytes);
  plan->feature = plan->expanded->data();
}

// The rows that the tile reads; bounds of the whole cube first, so that a fault names it.
void fetch_features(const Memory& memory, const Position& where, TaskPlan* plan) {
  const FeatureCube& f = plan->cna.feature;
  const char* reg = "CNA.FEATURE_DATA_ADDR";
  const uint64_t row_bytes = row_bytes_of(plan->cna);
  const uint64_t surface_bytes = (f.height - 1) * f.line_pitch + row_bytes;
  const AddressPattern cube{f.address, surface_bytes, f.surface_pitch, f.surfaces()};
  if (f.line_pitch == row_bytes || f.height == 1) {
    plan->feature =
        reinterpret_cast<const int8_t*>(memory.read(cube, where, reg, "the input tile"));
  } else {
    // For the never-written check row by row where rows have gaps.
    const AddressPattern extent{f.address + cube.extent() - row_bytes, row_bytes, 0, 1};
    memory.read(extent, where, reg, "the input tile");
    for (uint32_t s = f.surfaces(); s-- > 0;) {
      const AddressPattern rows{f.address + s * f.surface_pitch, row_bytes, f.line_pitch, f.height};
      plan->feature =
          reinterpret_cast<const int8_t*>(memory.read(rows, where, reg, "the input tile"));
    }
    if (!memory.same_region(f.address, extent.address)) {
      raise(fault::kUnmappedAccess, where, reg, "the input tile ", hex(f.address), "..",
            hex(extent.address + row_bytes), " spans more than one buffer");
    }
  }
  plan->feature_reads = feature_ranges(plan->cna);
  plan->feature_bytes = row_bytes * f.height * f.surfaces();
  plan->cbuf_data_bytes =
      plan->cna.packed.is_on
          ? uint64_t{plan->cna.cbuf.entries_per_row} * kAtomBytes
          : uint64_t{plan->cna.cbuf.entries_per_row} * plan->cna.chip->cbuf_entry_bytes * f.height;
  plan->expanded = std::make_unique<std::vector<int8_t>>();
  expand_features(&plan->cna, &plan->feature, plan->expanded.get());
}

void plan_conv(const RegisterFile& registers, const Memory& memory, Cbuf& cbuf, const Chip& chip,
               const Position& where, TaskPlan* plan) {
  const BlockView cna = registers.view(Block::kCna, where);
  const BlockView core = registers.view(Block::kCore, where);
  const Decoder& decoder = *registers.known().decoder;
  plan->cna = decoder.cna(cna, chip);
  plan->core = decoder.core(core, plan->cna, plan->dpu);
  if ((plan->cna.element == Element::kFp16) != plan->dpu.computes_in_float()) {
    raise(fault::kInconsistentSizes, where, "DPU.DATA_FORMAT.PROC_PRECISION", "is ",
          element_name(plan->dpu.proc), " but CNA.CONV_CON1 makes sums of ",
          element_name(plan->cna.element), " products");
  }
  cbuf.load(plan->cna, cna);
  fetch_features(memory, where, plan);
  const WeightBlock& w = plan->cna.weights;
  const AddressPattern weights{w.address, w.bytes, 0, 1};
  plan->weights = reinterpret_cast<const int8_t*>(
      memory.read(weights, where, "CNA.DCOMP_ADDR0", "the weights"));
}

RdmaConfig decode_stages(uint32_t enable_mask, const RegisterFile& registers, const Memory&,
                         const Chip& chip, const Position& where, DpuConfig* config) {
  const bool is_conv = (enable_mask & kEnableCna) != 0;
  *config = decode_dpu(registers.view(Block::kDpu, where), is_conv, chip);
  if ((enable_mask & kEnableDpuRdma) == 0) return {};
  return decode_rdma(registers.view(Block::kDpuRdma, where), *config, is_conv);
}

}  // namespace

const Decoder kBaseDecoder = {&decode_stages, &decode_cna, &decode_core, nullptr};

bool is_pooling(uint32_t enable_mask, const Position& where) {
  check_enable(enable_mask, where);
  return enable_mask == kPoolingMask;
}

TaskPlan plan_task(uint32_t enable_mask, const RegisterFile& registers, const LutTables& tables,
                   Memory& memory, Cbuf& cbuf, const Chip& chip, const Position& where) {
  TaskPlan plan;
  plan.is_conv = (enable_mask & kEnableCna) != 0;
  const Decoder& decoder = *registers.known().decoder;
  const RdmaConfig rdma = decoder.dpu(enable_mask, registers, memory, chip, where, &plan.dpu);
  if (plan.is_conv) plan_conv(registers, memory, cbuf, chip, where, &plan);
  const std::vector<AddressPattern> outputs = output_ranges(plan.dpu);
  const char* dst = "DPU.DST_BASE_ADDR";
  // Operands that have to be copied take no more room than the output has.
  for (const AddressPattern& output : outputs) memory.check(output, where, dst, "the output");
  plan.operands = fetch_operands(memory, rdma, plan.dpu, where);
  if (rdma.scalars.extent() != 0) {
    plan.operands.reads.push_back(rdma.scalars);
    if (plan.is_conv) plan.operands.bytes.brdma += rdma.scalars.extent();
  }
  if (plan.is_conv && decoder.reorder_weights != nullptr) decoder.reorder_weights(where, &plan);

  if (plan.dpu.lut.is_on) {
    plan.dpu.lut.tables = &tables;
    if (!tables.is_complete(0) || !tables.is_complete(1)) {
      raise(fault::kNeverWrittenRegister, where, "DPU.LUT_ACCESS_DATA",
            "the task uses the lookup tables but no task of this run has written all 513 entries "
            "of both");
    }
  }
  // Elements of another size, or pixels in another order, would overwrite what is still to be read.
  const auto is_in_order = [](const OperandCube& cube) {
    return !cube.gathered || cube.address != 0;  // rows may have gaps
  };
  const bool is_in_place = element_bytes(plan.dpu.in) == element_bytes(plan.dpu.out_element) &&
                           is_in_order(plan.operands.main) && is_in_order(plan.operands.ew) &&
                           plan.dpu.writes_as_computed();
  if (plan.is_conv) {
    const WeightBlock& w = plan.cna.weights;
    if (check_overlap(outputs, plan.feature_reads, false, where, dst, "input features")) {
      hold_features(where, dst, &plan);
    }
    check_overlap(outputs, {{w.address, w.bytes, 0, 1}}, false, where, dst, "weights");
  }
  check_overlap(outputs, plan.operands.reads, is_in_place, where, dst, "an operand");

  const uint64_t row_bytes = uint64_t{plan.dpu.write_width} * kAtomBytes;
  const uint64_t bytes = (plan.dpu.write_height - 1) * plan.dpu.line_pitch + row_bytes;
  for (size_t s = outputs.size(); s-- > 0;) {
    const AddressPattern rows{outputs[s].address, row_bytes, plan.dpu.line_pitch,
                              plan.dpu.write_height};
    const bool is_whole = outputs[s].bytes == bytes;
    plan.output = memory.write(is_whole ? rows : outputs[s], where, dst, "the output");
    if (!memory.same_region(outputs[0].address, outputs[s].address)) {
      raise(fault::kUnmappedAccess, where, "DPU.DST_BASE_ADDR", "the output's surfaces at ",
            hex(outputs[0].address), " and ", hex(outputs[s].address), " lie in different buffers");
    }
    cbuf.note_write(outputs[s]);
  }
  plan.writes = outputs;
  return plan;
}

}  // namespace rk3588::sim
