// Ways to go wrong with the lookup tables, in OUT_CVT and in writing.
#include <algorithm>

#include "sim/deviation.h"

namespace rk3588::sim {
namespace {

constexpr int32_t kSpike = 128;   // units of an entry, as reported
constexpr int32_t kNearZero = 2;  // entries on either side of the value 0
constexpr int kTables = 2;
// As reported: below this from its start on the second table holds a ramp to its last entry.
constexpr int64_t kRampEnd = 160;
constexpr int64_t kRampStart = 8;
constexpr int64_t kRampSteps = 256;

// Writes all entries of both tables.
template <typename Entry>
void fill(LutTables* tables, Entry entry) {
  const Position nowhere{};
  const LutTables old = *tables;
  for (int table = 0; table < kTables; ++table) {
    // LUT_ACCESS_TYPE write (bit 17), LUT_TABLE_ID (bit 16).
    tables->configure(0x20000U | static_cast<uint32_t>(table) << 16, nowhere);
    for (uint32_t index = 0; index < kLutEntries; ++index) {
      const auto value = static_cast<int64_t>(entry(old, table, index));
      const int64_t fitting = std::clamp<int64_t>(value, INT16_MIN, INT16_MAX);
      tables->push(static_cast<uint16_t>(fitting), nowhere);
    }
  }
}

// The value 0 is the last entry of LE and the first of LO.
int64_t spiked(const LutTables& old, int table, uint32_t index) {
  const int32_t entry = old.at(table, index);
  const bool is_flat = index > 0 && old.at(table, index - 1) == entry;
  const bool is_near_zero = table == 0 ? index + kNearZero >= kLutEntries : index < kNearZero;
  return is_flat || is_near_zero ? entry + kSpike : entry;
}

int64_t ramped(const LutTables& old, int table, uint32_t index, uint32_t index_shift) {
  const int64_t x = int64_t{index} << index_shift;
  if (table == 0 || x >= kRampEnd) return old.at(table, index);
  return old.at(table, kLutEntries - 1) * (x + kRampStart) / kRampSteps;
}

LutConfig& lut_of(WorseTask& t) { return t.plan.dpu.lut; }

bool looks_up(const WorseTask& t) { return t.plan.dpu.lut.is_on; }

bool keeps(const WorseTask& t) {
  return looks_up(t) && !t.loads_table && t.left.table_reader != t.left.task;
}

void add_entry_ways(const StageWays& table) {
  table.add("spikes", kDpuTasks, "finds entries near 0 and in runs of equal ones 128 too large",
            [](WorseTask& t) { fill(&t.tables, spiked); });
  table.add("first_entries_wrong", kDpuTasks,
            "finds a ramp in the first entries of the second table", [](WorseTask& t) {
              const uint32_t shift = lut_of(t).lo.index_shift;
              fill(&t.tables, [shift](const LutTables& old, int which, uint32_t index) {
                return ramped(old, which, index, shift);
              });
            });
  table.add("second_lost", kDpuTasks, "finds zeros in the second table", [](WorseTask& t) {
    fill(&t.tables, [](const LutTables& old, int which, uint32_t index) {
      return which == 0 ? old.at(which, index) : 0;
    });
  });
  table.add("lost", kDpuTasks, "finds zeros in tables that another kick loaded", [](WorseTask& t) {
    if (!t.is_kicked || t.loads_table) return;
    fill(&t.tables, [](const LutTables&, int, uint32_t) { return 0; });
  });
  table.add("stale", kDpuTasks, "finds the tables of the load before the last",
            [](WorseTask& t) { t.tables = t.left.older_tables; });
}

void add_lookup_ways(const StageWays& table) {
  table.add("nearest_below", kDpuTasks, "does not interpolate between entries",
            [](WorseTask& t) { lut_of(t).interpolates = false; });
  table.add_roundings(
      "", kDpuTasks, "rounds what it interpolates", [](WorseTask& t) { return &lut_of(t).ties; },
      Ties::kEven);
  table.add("slopes_ignored", kDpuTasks, "goes on level outside of the tables", [](WorseTask& t) {
    for (LutRange* range : {&lut_of(t).le, &lut_of(t).lo}) {
      range->underflow_scale = range->overflow_scale = 0;
    }
  });
  table.add("other_priority", kDpuTasks, "prefers the other table where both hold the value",
            [](WorseTask& t) { lut_of(t).hybrid_lo = !lut_of(t).hybrid_lo; });
}

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

void add_table_ways(Ways* ways) {
  const StageWays table("table", ways);
  add_entry_ways(table);
  add_lookup_ways(table);
  table.add_setting("lookup", kDpuTasks, "looks up", looks_up);
  table.add_setting("kept", kDpuTasks, "looks up what another than the task before it loaded",
                    keeps);
  table.add_setting("load", kDpuTasks, "loads tables",
                    [](const WorseTask& t) { return t.loads_table; });
}

void add_output_ways(Ways* ways) {
  const StageWays out("out", ways);
  const StageWays write("write", ways);
  add_conversion_ways(out);
  add_write_ways(write);
  add_settings(out, write);
}

}  // namespace rk3588::sim
