#include "sim/executor.h"

#include <algorithm>

namespace rk3588::sim {
namespace {

constexpr uint32_t kConvMask = kEnableCna | kEnableCore | kEnableDpu;
constexpr uint32_t kConvRdmaMask = kConvMask | kEnableDpuRdma;
constexpr uint32_t kFlyingMask = kEnableDpu | kEnableDpuRdma;

void check_enable(uint32_t mask, const Position& where) {
  if (mask == kConvMask || mask == kConvRdmaMask || mask == kFlyingMask) return;
  const char* reg = "ENABLE.OPERATION_ENABLE";
  if (mask == kEnablePpu) {
    raise(fault::kUnsupportedFeature, where, reg,
          "pooling (0x60, PPU and PPU_RDMA) is not modelled by this simulator; supported are 0x1d, "
          "0x0d and 0x18");
  }
  raise(fault::kBadEnableMask, where, reg,
        "mask " + hex(mask) +
            " starts no known set of blocks; known are 0x1d (convolution), 0x0d "
            "(without DPU_RDMA), 0x18 (element-wise) and 0x60 (pooling)");
}

// The rows of each surface as one range.
std::vector<AddressPattern> feature_ranges(const FeatureCube& f) {
  const uint64_t bytes = (f.height - 1) * f.line_pitch + uint64_t{f.width} * kAtomBytes;
  std::vector<AddressPattern> ranges;
  for (uint32_t s = 0; s < f.surfaces(); ++s) {
    ranges.push_back({f.address + s * f.surface_pitch, bytes, 0, 1});
  }
  return ranges;
}

std::vector<AddressPattern> output_ranges(const DpuConfig& d) {
  const uint64_t bytes = (d.height - 1) * d.line_pitch + uint64_t{d.width} * kAtomBytes;
  std::vector<AddressPattern> ranges;
  for (uint32_t s = 0; s < d.surfaces(); ++s) {
    ranges.push_back({d.dst + d.surface_offset(s), bytes, 0, 1});
  }
  return ranges;
}

// Two ranges that start and end at the same address are an in-place operation: every element is
// read before it is written there. Anything else that touches destroys input that other elements
// still need.
void check_overlap(const std::vector<AddressPattern>& outputs, std::vector<AddressPattern> inputs,
                   bool in_place_allowed, const Position& where, const std::string& what) {
  std::sort(inputs.begin(), inputs.end(),
            [](const AddressPattern& a, const AddressPattern& b) { return a.address < b.address; });
  uint64_t longest = 0;
  for (const AddressPattern& input : inputs) longest = std::max(longest, input.bytes);
  for (const AddressPattern& out : outputs) {
    const uint64_t from = out.address > longest ? out.address - longest : 0;
    auto input = std::lower_bound(
        inputs.begin(), inputs.end(), from,
        [](const AddressPattern& a, uint64_t address) { return a.address < address; });
    for (; input != inputs.end() && input->address < out.address + out.bytes; ++input) {
      if (input->address + input->bytes <= out.address) continue;
      const bool same = input->address == out.address && input->bytes == out.bytes;
      if (same && in_place_allowed) continue;
      raise(fault::kOutputOverlap, where, "DPU.DST_BASE_ADDR",
            "the output " + hex(out.address) + ".." + hex(out.address + out.bytes) +
                " overwrites " + what + " at " + hex(input->address) + ".." +
                hex(input->address + input->bytes) + " that the same task reads");
    }
  }
}

void fetch_features(const Memory& memory, const Position& where, TaskPlan* plan) {
  const FeatureCube& f = plan->cna.feature;
  const uint64_t row_bytes = uint64_t{f.width} * kAtomBytes;
  const uint64_t surface_bytes = (f.height - 1) * f.line_pitch + row_bytes;
  // Bounds of the whole cube first, then (for the never-written check) row by row where rows have
  // gaps.
  const AddressPattern cube{f.address, surface_bytes, f.surface_pitch, f.surfaces()};
  if (f.line_pitch == row_bytes || f.height == 1) {
    plan->feature = reinterpret_cast<const int8_t*>(
        memory.read(cube, where, "CNA.FEATURE_DATA_ADDR", "the input tile"));
    return;
  }
  const AddressPattern extent{f.address + cube.extent() - row_bytes, row_bytes, 0, 1};
  memory.read(extent, where, "CNA.FEATURE_DATA_ADDR", "the input tile");
  for (uint32_t s = f.surfaces(); s-- > 0;) {
    const AddressPattern rows{f.address + s * f.surface_pitch, row_bytes, f.line_pitch, f.height};
    plan->feature = reinterpret_cast<const int8_t*>(
        memory.read(rows, where, "CNA.FEATURE_DATA_ADDR", "the input tile"));
  }
  if (!memory.same_region(f.address, extent.address)) {
    raise(fault::kUnmappedAccess, where, "CNA.FEATURE_DATA_ADDR",
          "the input tile " + hex(f.address) + ".." + hex(extent.address + row_bytes) +
              " spans more than one buffer");
  }
}

void plan_conv(const RegisterFile& registers, const Memory& memory, Cbuf& cbuf,
               const Position& where, TaskPlan* plan) {
  const BlockView cna(registers.current(Block::kCna), Block::kCna, where);
  const BlockView core(registers.current(Block::kCore), Block::kCore, where);
  plan->cna = decode_cna(cna);
  plan->core = decode_core(core, plan->cna, plan->dpu);
  cbuf.load(plan->cna, cna);
  fetch_features(memory, where, plan);
  const WeightBlock& w = plan->cna.weights;
  const AddressPattern weights{w.address, w.bytes, 0, 1};
  plan->weights = reinterpret_cast<const int8_t*>(
      memory.read(weights, where, "CNA.DCOMP_ADDR0", "the weights"));
}

}  // namespace

TaskPlan plan_task(uint32_t enable_mask, const RegisterFile& registers, Memory& memory, Cbuf& cbuf,
                   const Position& where) {
  check_enable(enable_mask, where);
  TaskPlan plan;
  plan.is_conv = (enable_mask & kEnableCna) != 0;
  const BlockView dpu(registers.current(Block::kDpu), Block::kDpu, where);
  plan.dpu = decode_dpu(dpu, plan.is_conv);
  RdmaConfig rdma;
  if ((enable_mask & kEnableDpuRdma) != 0) {
    const BlockView view(registers.current(Block::kDpuRdma), Block::kDpuRdma, where);
    rdma = decode_rdma(view, plan.dpu, plan.is_conv);
  }
  if (plan.is_conv) plan_conv(registers, memory, cbuf, where, &plan);
  plan.operands = fetch_operands(memory, rdma, plan.dpu, where);

  const std::vector<AddressPattern> outputs = output_ranges(plan.dpu);
  if (plan.is_conv) {
    const WeightBlock& w = plan.cna.weights;
    check_overlap(outputs, feature_ranges(plan.cna.feature), false, where, "input features");
    check_overlap(outputs, {{w.address, w.bytes, 0, 1}}, false, where, "weights");
  }
  check_overlap(outputs, plan.operands.reads, true, where, "an operand");

  const uint64_t row_bytes = uint64_t{plan.dpu.width} * kAtomBytes;
  for (size_t s = outputs.size(); s-- > 0;) {
    const AddressPattern rows{outputs[s].address, row_bytes, plan.dpu.line_pitch, plan.dpu.height};
    plan.output = memory.write(rows, where, "DPU.DST_BASE_ADDR", "the output");
    if (!memory.same_region(outputs[0].address, outputs[s].address)) {
      raise(fault::kUnmappedAccess, where, "DPU.DST_BASE_ADDR",
            "the output's surfaces at " + hex(outputs[0].address) + " and " +
                hex(outputs[s].address) + " lie in different buffers");
    }
    cbuf.note_write(outputs[s]);
  }
  return plan;
}

}  // namespace rk3588::sim
