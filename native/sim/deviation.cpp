#include "sim/deviation.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "chip/registers_gen.h"
#include "sim/pc.h"

namespace rk3588::sim {
namespace {

// 128 too much near 0 and in runs of equal entries.
constexpr char kTableSpikes[] = "table:spikes";
// A kick clears the tables.
constexpr char kTableLost[] = "kept_table:lost";
// A kick clears the weights in CBUF.
constexpr char kWeightsLost[] = "kept_weights:lost";
// BN's multipliers in memory count as 1.
constexpr char kNoBnMultiplier[] = "bn_multiplier_per_channel:ignored";
// Of an operand of 16 bits per channel EW reads the low byte.
constexpr char kNarrowEwOperand[] = "wide_ew_operand:low_byte";
// EW's shift of products is ignored.
constexpr char kNoEwTruncation[] = "ew_truncation:ignored";
// OUT_CVT rounds all ties to even.
constexpr char kTiesToEven[] = "ties_away:even";
// The sum of inputs is not added.
constexpr char kNoInputSums[] = "input_sums:ignored";
// The rows of a window of columns are read as if they followed each other.
constexpr char kPackedRows[] = "window_of_columns:packed_rows";
// Tasks without a convolution write surfaces in pairs.
constexpr char kWideWrites[] = "element_wise_alone:32_lanes";
// OUT_CVT rounds ties up instead of to even.
constexpr char kTiesUp[] = "convolution:ties_up";
// OUT_CVT rounds ties up instead of away from zero.
constexpr char kTiesAwayUp[] = "ties_away:up";
// BS and BN round ties up.
constexpr char kMultiplierUp[] = "multiplier:ties_up";
// EW rounds ties of its operand up.
constexpr char kConversionUp[] = "operand_conversion:ties_up";
// EW rounds ties of its product up.
constexpr char kTruncationUp[] = "ew_truncation:ties_up";
// A convolution behind another runs with the registers of that one.
constexpr char kStaleBehindConv[] = "convolution:stale_registers";
// Behind a task without one, with those of the convolution before it.
constexpr char kStaleBehindAlone[] = "element_wise_alone:stale_registers";
// The PPU's interrupt never arrives.
constexpr char kNoPoolingInterrupt[] = "pooling:no_interrupt";

constexpr const char* kKnown[] = {
    kTableSpikes,     kTableLost,        kWeightsLost,       kNoBnMultiplier, kNarrowEwOperand,
    kNoEwTruncation,  kTiesToEven,       kNoInputSums,       kPackedRows,     kWideWrites,
    kTiesUp,          kTiesAwayUp,       kMultiplierUp,      kConversionUp,   kTruncationUp,
    kStaleBehindConv, kStaleBehindAlone, kNoPoolingInterrupt};

constexpr int32_t kSpike = 128;   // units of an entry, as reported
constexpr int32_t kNearZero = 2;  // entries on either side of the value 0
constexpr int kTables = 2;
constexpr uint16_t kPointerOffset = 0x004;  // S_POINTER of a block, which no group holds
constexpr char kHangs[] = ":hangs";
constexpr uint64_t kResultBuffer = 2;  // a number that stands for memory that tasks write

bool has(const Deviations& deviations, const std::string& wanted) {
  const std::vector<std::string>& known = deviations.known;
  return std::find(known.begin(), known.end(), wanted) != known.end();
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

// What a task leaves in the register of a setting; 0 in those of blocks that it does not start.
uint32_t word_of(const RegisterFile& registers, uint32_t enable_mask,
                 const FeatureSetting& setting) {
  if (setting.target == regs::enable::kTarget) return enable_mask;
  Block block;
  if (!block_of_target(setting.target, &block) || !starts(enable_mask, block)) return 0;
  if ((setting.offset & 0xfff) == kPointerOffset) {
    return registers.is_cleared(block) ? kPointerClear : 0;
  }
  return registers.current(block).value_or_zero(setting.offset);
}

void round_up(const Deviations& deviations, const char* wanted, bool is_on, Ties* ties) {
  if (is_on && has(deviations, wanted)) *ties = Ties::kUp;
}

}  // namespace

DeviationScratch::DeviationScratch() {
  fill(&empty, [](int, uint32_t) { return 0; });
}

Deviations parse_deviations(const std::string& list, const Chip& chip) {
  const FeatureTable& table = feature_table(chip);
  const Feature* const end = table.features + table.count;
  Deviations found;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    if (std::find(std::begin(kKnown), std::end(kKnown), part) != std::end(kKnown)) {
      found.known.push_back(part);
      continue;
    }
    const size_t colon = part.find(':');
    const std::string way = colon == std::string::npos ? "" : part.substr(colon);
    const Feature* const feature = std::find_if(table.features, end, [&](const Feature& item) {
      return part.substr(0, colon) == item.name;
    });
    if (feature == end || (!way.empty() && way != kHangs)) {
      std::string all;
      for (const char* known : kKnown) all += std::string(", ") + known;
      throw std::invalid_argument("\"" + part +
                                  "\" is no deviation of a chip; known are a feature, a feature "
                                  "with :hangs" +
                                  all);
    }
    (way.empty() ? found.absent : found.hanging).set(static_cast<size_t>(feature - table.features));
  }
  return found;
}

bool ends_pooling(const Deviations& deviations) { return !has(deviations, kNoPoolingInterrupt); }

// The groups of CNA and CORE are out of step: that of the convolution before is taken.
RegisterFile running_registers(const Deviations& deviations, const RegisterFile& registers,
                               uint32_t enable_mask, std::optional<bool> was_conv) {
  RegisterFile found = registers;
  const auto deviation = was_conv.value_or(true) ? kStaleBehindConv : kStaleBehindAlone;
  if (!was_conv || (enable_mask & kEnableCna) == 0 || !has(deviations, deviation)) return found;
  for (const Block block : {Block::kCna, Block::kCore}) found.advance(block);
  // Nothing ran in it: there is nothing stale.
  const bool is_empty = !found.current(Block::kCna).is_written(regs::cna::conv_con1::kOffset);
  return is_empty ? registers : found;
}

FeatureSet features_of_task(const Chip& chip, const RegisterFile& registers, uint32_t enable_mask,
                            const FeatureTrace& trace) {
  namespace dpu = regs::dpu;
  const auto value = [&](const FeatureSetting& setting) -> uint64_t {
    switch (setting.kind) {
      case FeatureSetting::Kind::kCore:
        return 0;
      case FeatureSetting::Kind::kKeepsTable:
        return trace.looks_up && trace.behind_load != trace.task ? 1 : 0;
      case FeatureSetting::Kind::kAddress: {
        const uint32_t address = word_of(registers, enable_mask, setting);
        return std::any_of(trace.written.begin(), trace.written.end(),
                           [&](const AddressPattern& pattern) {
                             return address >= pattern.address &&
                                    address < pattern.address + pattern.extent();
                           })
                   ? kResultBuffer
                   : 0;
      }
      case FeatureSetting::Kind::kField:
      case FeatureSetting::Kind::kWord:
        break;
    }
    if (setting.target == dpu::kTarget && setting.offset == dpu::lut_access_cfg::kOffset) {
      return trace.loads_tables ? 1 : 0;
    }
    return word_of(registers, enable_mask, setting) >> setting.lo & setting.mask;
  };
  const FeatureSet used = matching_features(feature_table(chip), value);
  return trace.looks_up ? used | trace.loader : used;
}

void deviate(const Deviations& deviations, bool is_kicked, DeviationScratch* scratch,
             TaskPlan* plan) {
  DpuConfig& dpu = plan->dpu;
  if (has(deviations, kTableSpikes) && dpu.lut.is_on) {
    const LutTables& tables = *dpu.lut.tables;
    fill(&scratch->spiked, [&](int table, uint32_t index) { return spiked(tables, table, index); });
    dpu.lut.tables = &scratch->spiked;
  }
  if (has(deviations, kTableLost) && dpu.lut.is_on && is_kicked) {
    dpu.lut.tables = &scratch->empty;
  }
  if (has(deviations, kWeightsLost) && plan->is_conv && is_kicked && plan->cna.cbuf.weight_reuse) {
    scratch->weights.assign(plan->cna.weights.bytes, 0);
    plan->weights = scratch->weights.data();
    plan->cna.cbuf.weight_reuse = false;
  }
  if (has(deviations, kNoBnMultiplier) && dpu.bn.mul == Operand::kMemory) {
    std::fill(plan->operands.bn.mul.begin(), plan->operands.bn.mul.end(), int16_t{1});
  }
  if (has(deviations, kNarrowEwOperand) && dpu.ew.operand_bytes == 2) {
    for (int32_t& operand : plan->operands.ew_channels) operand = static_cast<int8_t>(operand);
  }
  if (has(deviations, kNoEwTruncation)) {
    dpu.ew.truncate = 0;
    dpu.ew.truncate_negative = 0;
  }
  if (has(deviations, kTiesToEven)) dpu.out.ties = Ties::kEven;
  round_up(deviations, kTiesUp, dpu.out.ties == Ties::kEven, &dpu.out.ties);
  round_up(deviations, kTiesAwayUp, dpu.out.ties == Ties::kAway, &dpu.out.ties);
  round_up(deviations, kMultiplierUp, dpu.bs.mul != Operand::kOff, &dpu.bs.ties);
  round_up(deviations, kMultiplierUp, dpu.bn.mul != Operand::kOff, &dpu.bn.ties);
  round_up(deviations, kConversionUp, dpu.ew.convert, &dpu.ew.convert_ties);
  round_up(deviations, kTruncationUp, dpu.ew.truncate != 0, &dpu.ew.ties);
  if (has(deviations, kNoInputSums)) dpu.ow = Operand::kOff;
  if (has(deviations, kPackedRows) && plan->is_conv) {
    FeatureCube& feature = plan->cna.feature;
    feature.line_pitch = uint64_t{feature.width} * kAtomBytes;
  }
}

void write_more(const Deviations& deviations, const FeatureSet& used, const TaskPlan& plan,
                Memory& memory, const Position& where) {
  if ((used & deviations.absent).any()) {
    for (const AddressPattern& pattern : plan.writes) {
      uint8_t* bytes = memory.write(pattern, where, "DPU.DST_BASE_ADDR", "the output");
      for (uint64_t row = 0; row < pattern.count; ++row) {
        std::memset(bytes + row * pattern.pitch, 0, pattern.bytes);
      }
    }
  }
  if (!has(deviations, kWideWrites) || plan.is_conv || plan.writes.size() % 2 == 0) {
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
