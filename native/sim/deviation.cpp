#include "sim/deviation.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace rk3588::sim {
namespace {

struct Name {
  const char* text;
  Deviation deviation;
};

constexpr Name kNames[] = {
    {"table:spikes", Deviation::kTableSpikes},
    {"kept_table:lost", Deviation::kTableLost},
    {"kept_weights:lost", Deviation::kWeightsLost},
    {"bn_multiplier_per_channel:ignored", Deviation::kNoBnMultiplier},
    {"wide_ew_operand:low_byte", Deviation::kNarrowEwOperand},
    {"ew_truncation:ignored", Deviation::kNoEwTruncation},
    {"ties_away:even", Deviation::kTiesToEven},
    {"input_sums:ignored", Deviation::kNoInputSums},
    {"window_of_columns:packed_rows", Deviation::kPackedRows},
    {"element_wise_alone:32_lanes", Deviation::kWideWrites},
};

constexpr int32_t kSpike = 128;   // units of an entry, as reported
constexpr int32_t kNearZero = 2;  // entries on either side of the value 0
constexpr int kTables = 2;

bool has(const std::vector<Deviation>& deviations, Deviation wanted) {
  return std::find(deviations.begin(), deviations.end(), wanted) != deviations.end();
}

// Writes all entries of both tables.
template <typename Entry>
void fill(LutTables* tables, Entry entry) {
  const Position nowhere{};
  for (int table = 0; table < kTables; ++table) {
    // LUT_ACCESS_TYPE write (bit 17), LUT_TABLE_ID (bit 16).
    tables->configure(0x20000U | static_cast<uint32_t>(table) << 16, nowhere);
    for (uint32_t index = 0; index < kLutEntries; ++index) {
      tables->push(static_cast<uint16_t>(entry(table, index)), nowhere);
    }
  }
}

// The value 0 is the last entry of LE and the first of LO.
bool is_near_zero(int table, uint32_t index) {
  return table == 0 ? index + kNearZero >= kLutEntries : index < kNearZero;
}

int32_t spiked(const LutTables& tables, int table, uint32_t index) {
  const int32_t entry = tables.at(table, index);
  const bool is_flat = index > 0 && tables.at(table, index - 1) == tables.at(table, index);
  if (!is_flat && !is_near_zero(table, index)) return entry;
  return std::min<int32_t>(entry + kSpike, INT16_MAX);
}

}  // namespace

DeviationScratch::DeviationScratch() {
  fill(&empty, [](int, uint32_t) { return 0; });
}

std::vector<Deviation> parse_deviations(const std::string& list) {
  std::vector<Deviation> found;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto* name = std::find_if(std::begin(kNames), std::end(kNames),
                                    [&](const Name& item) { return part == item.text; });
    if (name == std::end(kNames)) {
      std::string all;
      for (const Name& item : kNames) all += std::string(all.empty() ? "" : ", ") + item.text;
      throw std::invalid_argument("\"" + part + "\" is no deviation of a chip; known are " + all);
    }
    found.push_back(name->deviation);
  }
  return found;
}

void deviate(const std::vector<Deviation>& deviations, bool is_kicked, DeviationScratch* scratch,
             TaskPlan* plan) {
  DpuConfig& dpu = plan->dpu;
  if (has(deviations, Deviation::kTableSpikes) && dpu.lut.is_on) {
    const LutTables& tables = *dpu.lut.tables;
    fill(&scratch->spiked, [&](int table, uint32_t index) { return spiked(tables, table, index); });
    dpu.lut.tables = &scratch->spiked;
  }
  if (has(deviations, Deviation::kTableLost) && dpu.lut.is_on && is_kicked) {
    dpu.lut.tables = &scratch->empty;
  }
  if (has(deviations, Deviation::kWeightsLost) && plan->is_conv && is_kicked &&
      plan->cna.cbuf.weight_reuse) {
    scratch->weights.assign(plan->cna.weights.bytes, 0);
    plan->weights = scratch->weights.data();
    plan->cna.cbuf.weight_reuse = false;
  }
  if (has(deviations, Deviation::kNoBnMultiplier) && dpu.bn.mul == Operand::kMemory) {
    std::fill(plan->operands.bn_mul.begin(), plan->operands.bn_mul.end(), int16_t{1});
  }
  if (has(deviations, Deviation::kNarrowEwOperand) && dpu.ew.operand_bytes == 2) {
    for (int32_t& operand : plan->operands.ew_channels) operand = static_cast<int8_t>(operand);
  }
  if (has(deviations, Deviation::kNoEwTruncation)) {
    dpu.ew.truncate = 0;
    dpu.ew.truncate_negative = 0;
  }
  if (has(deviations, Deviation::kTiesToEven)) dpu.out.half_away = false;
  if (has(deviations, Deviation::kNoInputSums)) dpu.ow = Operand::kOff;
  if (has(deviations, Deviation::kPackedRows) && plan->is_conv) {
    FeatureCube& feature = plan->cna.feature;
    feature.line_pitch = uint64_t{feature.width} * kAtomBytes;
  }
}

void write_more(const std::vector<Deviation>& deviations, const TaskPlan& plan, Memory& memory,
                const Position& where) {
  if (!has(deviations, Deviation::kWideWrites) || plan.is_conv || plan.writes.size() % 2 == 0) {
    return;
  }
  const uint64_t behind = plan.writes.back().address + plan.dpu.surface_pitch;
  for (uint32_t y = 0; y < plan.dpu.write_height; ++y) {
    const uint64_t bytes = uint64_t{plan.dpu.write_width} * kAtomBytes;
    const AddressPattern row{behind + y * plan.dpu.line_pitch, bytes, 0, 1};
    std::memset(memory.write(row, where, "DPU.DST_BASE_ADDR", "a second surface"), 0, bytes);
  }
}

}  // namespace rk3588::sim
