// Ways to go wrong in OUT_CVT and in writing.
#include "sim/deviation.h"

namespace rk3588::sim {
namespace {

constexpr unsigned kAlones = bit(TaskKind::kAlone) | bit(TaskKind::kHalfAlone);

OutStage& out_of(WorseTask& t) { return t.plan.dpu.out; }

bool writes_bytes(const TaskPlan& plan) { return plan.dpu.out_element == Element::kInt8; }

void add_conversion_ways(const StageWays& out) {
  out.add("scale_ignored", kDpuTasks, "does not scale", [](WorseTask& t) { out_of(t).scale = 1; });
  out.add("shift_ignored", kIntegers, "does not shift", [](WorseTask& t) { out_of(t).shift = 0; });
  out.add("offset_ignored", kIntegers, "adds no offset",
          [](WorseTask& t) { out_of(t).offset = 0; });
  out.add("exponent_ignored", kHalves, "does not divide by its power of two",
          [](WorseTask& t) { out_of(t).minus_exp = 0; });
  out.add_roundings("", kIntegers, "rounds results", [](WorseTask& t) { return &out_of(t).ties; });
  out.add("truncated", kHalves, "rounds results towards zero",
          [](WorseTask& t) { out_of(t).ties = Ties::kToZero; });
  out.add("offset_before_scale", kIntegers, "adds the offset before it scales",
          [](WorseTask& t) { out_of(t).adds_first = true; });
  out.add("clamp_before_offset", kIntegers, "clamps to 8 bits before it adds the offset",
          [](WorseTask& t) { out_of(t).saturates_first = writes_bytes(t.plan); });
  out.add("clamp_missing", kIntegers, "cuts off what does not fit in 8 bits",
          [](WorseTask& t) { out_of(t).wraps = true; });
}

void add_write_ways(const StageWays& write) {
  write.add(
      "rows_packed", kDpuTasks, "writes rows without the gaps between them",
      [](WorseTask& t) { t.plan.dpu.line_pitch = uint64_t{t.plan.dpu.write_width} * kAtomBytes; });
  write.add("surfaces_in_pairs", kAlones, "writes zeros to a surface behind an odd number of them",
            [](WorseTask& t) { t.writes_pairs = true; });
  write.add("first_atom_stale", kDpuTasks, "leaves the first 16 bytes as they were",
            [](WorseTask& t) {
              const int8_t* atom = t.plan.output_atom(0, 0, 0);
              t.first_atom.assign(atom, atom + kAtomBytes);
            });
}

void add_settings(const StageWays& out, const StageWays& write) {
  const auto add = [](const StageWays& stage, const char* name, unsigned kinds, const char* what,
                      bool (*has)(const DpuConfig&)) {
    stage.add_setting(name, kinds, what, [has](const WorseTask& t) { return has(t.plan.dpu); });
  };
  add(out, "scale", kDpuTasks, "scales results",
      [](const DpuConfig& d) { return d.out.scale != 1; });
  add(out, "shift", kIntegers, "shifts results",
      [](const DpuConfig& d) { return d.out.shift != 0; });
  add(out, "offset", kIntegers, "adds an offset to results",
      [](const DpuConfig& d) { return d.out.offset != 0; });
  add(out, "rounding_away", kIntegers, "rounds results with ties away from zero",
      [](const DpuConfig& d) { return d.out.ties == Ties::kAway; });
  add(out, "wide_results", kDpuTasks, "writes results of another size than it computes with",
      [](const DpuConfig& d) { return element_bytes(d.out_element) != element_bytes(d.proc); });
  add(write, "gap", kDpuTasks, "writes rows with gaps between them", [](const DpuConfig& d) {
    return d.write_height > 1 && d.line_pitch != uint64_t{d.write_width} * kAtomBytes;
  });
  add(write, "other_sizes", kDpuTasks, "writes by sizes other than the cube's",
      [](const DpuConfig& d) { return !d.writes_as_computed(); });
}

}  // namespace

void add_output_ways(Ways* ways) {
  const StageWays out("out", ways);
  const StageWays write("write", ways);
  add_conversion_ways(out);
  add_write_ways(write);
  add_settings(out, write);
}

}  // namespace rk3588::sim
