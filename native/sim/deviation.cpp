#include "sim/deviation.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "chip/registers_gen.h"
#include "sim/pc.h"

namespace rk3588::sim {
namespace {

constexpr const char* kKinds[kTaskKinds] = {
    "dense",          "depthwise",       "transposed", "alone",   "fp16_dense",
    "fp16_depthwise", "fp16_transposed", "fp16_alone", "pooling", "all"};

// Chips whose registers, PPU or cores go wrong; the stand-in's cores are its own.
constexpr char kRegisters[] = "registers";
constexpr char kOfConvBefore[] = "of_the_one_before";
constexpr char kOfConvBehindAlone[] = "of_the_one_before_behind_alone";
constexpr char kTask[] = "task";
constexpr char kHangs[] = "hangs";

Ways make_ways() {
  Ways ways;
  const StageWays task(kTask, &ways);
  task.add(kHangs, kDpuTasks, "never ends", [](WorseTask& t) { t.hangs = true; });
  task.add(kHangs, bit(TaskKind::kPooling), "raises no interrupt", nullptr);
  task.add("zeros", kDpuTasks, "writes zeros", [](WorseTask& t) { t.writes_zeros = true; });
  const StageWays registers(kRegisters, &ways);
  registers.add(kOfConvBefore, kConvs,
                "right behind another convolution runs with that one's registers of CNA and CORE",
                nullptr);
  registers.add(kOfConvBehindAlone, kConvs,
                "behind a task of the DPU alone runs with CNA's and CORE's registers of the "
                "convolution before it",
                nullptr);
  const StageWays cores("cores", &ways);
  cores.add("disturb", bit(TaskKind::kAll), "is spoilt while another core is at work", nullptr);
  cores.add("disturb_and_hang", bit(TaskKind::kAll), "never ends if another core is at work",
            nullptr);
  add_input_ways(&ways);
  add_x_ways(&ways);
  add_ew_ways(&ways);
  add_table_ways(&ways);
  add_output_ways(&ways);
  return ways;
}

const Ways& all_ways() {
  static const Ways ways = make_ways();
  return ways;
}

TaskKind kind_of(bool is_half, bool is_conv, bool is_transposed, bool is_depthwise) {
  const int first = static_cast<int>(is_half ? TaskKind::kHalfDense : TaskKind::kDense);
  const TaskKind kind = !is_conv        ? TaskKind::kAlone
                        : is_transposed ? TaskKind::kTransposed
                        : is_depthwise  ? TaskKind::kDepthwise
                                        : TaskKind::kDense;
  return static_cast<TaskKind>(first + static_cast<int>(kind));
}

// Operands that the task leaves for later ones.
struct Noted {
  XOperands bs;
  XOperands bn;
  std::vector<int32_t> ew;
};

template <typename Numbers>
void keep(Numbers found, Numbers* kept) {
  if (!found.empty()) *kept = std::move(found);
}

void keep(XOperands found, XOperands* kept) {
  keep(std::move(found.alu), &kept->alu);
  keep(std::move(found.ow), &kept->ow);
  keep(std::move(found.mul), &kept->mul);
}

// Before the task: what it loads.
void note_loads(const WorseTask& t) {
  LeftBehind& left = t.left;
  if (t.loads_table) {
    left.table_reader = left.task + 1;
    left.older_tables = left.tables;
    left.tables = t.tables;
  }
  if (t.plan.is_conv && !t.plan.cna.cbuf.weight_reuse) {
    left.older_weights.swap(left.weights);
    left.weights = t.weights();
  }
}

}  // namespace

void StageWays::add_setting(const std::string& name, unsigned kinds, const std::string& what,
                            const std::function<bool(const WorseTask&)>& has) const {
  add(name + "_hangs", kinds, "that " + what + " never ends",
      [has](WorseTask& t) { t.hangs |= has(t); });
  add(name + "_zeros", kinds, "that " + what + " writes zeros",
      [has](WorseTask& t) { t.writes_zeros |= has(t); });
}

void StageWays::add_roundings(const std::string& prefix, unsigned kinds,
                              const std::string& rounding,
                              const std::function<Ties*(WorseTask&)>& ties,
                              std::optional<Ties> own) const {
  const struct {
    const char* name;
    const char* what;
    Ties ties;
  } all[] = {{"ties_even", " ties to even", Ties::kEven},
             {"ties_away", " ties away from zero", Ties::kAway},
             {"ties_up", " ties up", Ties::kUp},
             {"truncated", " towards zero", Ties::kToZero},
             {"floored", " down", Ties::kDown}};
  for (const auto& each : all) {
    if (each.ties == own) continue;
    add(prefix + each.name, kinds, rounding + each.what,
        [ties, to = each.ties](WorseTask& t) { *ties(t) = to; });
  }
}

std::vector<Deviation> known_deviations() {
  std::vector<Deviation> found;
  for (int kind = 0; kind < kTaskKinds; ++kind) {
    for (const Way& way : all_ways()) {
      if ((way.kinds >> kind & 1) != 0) {
        found.push_back({kKinds[kind], way.stage, way.name, way.what});
      }
    }
  }
  return found;
}

WorseChip::WorseChip(const std::string& list) {
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    bool is_known = false;
    for (int kind = 0; kind < kTaskKinds; ++kind) {
      for (const Way& way : all_ways()) {
        if ((way.kinds >> kind & 1) == 0) continue;
        if (part != Deviation{kKinds[kind], way.stage, way.name, ""}.name()) continue;
        ways_[kind].push_back(&way);
        is_known = true;
      }
    }
    if (!is_known) {
      throw std::invalid_argument("\"" + part +
                                  "\" is no deviation of a chip; delegate._native.deviations() "
                                  "lists those that are");
    }
    is_healthy_ = false;
  }
  // Once each, in the order in which data pass the stages, whatever the list's.
  for (std::vector<const Way*>& ways : ways_) {
    std::sort(ways.begin(), ways.end());
    ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
  }
}

bool WorseChip::has(TaskKind kind, const std::string& stage, const std::string& way) const {
  const std::vector<const Way*>& ways = ways_[static_cast<int>(kind)];
  return std::any_of(ways.begin(), ways.end(),
                     [&](const Way* each) { return each->stage == stage && each->name == way; });
}

bool WorseChip::ends_pooling() const { return !has(TaskKind::kPooling, kTask, kHangs); }

// The groups of CNA and CORE are out of step: that of the convolution before is taken.
RegisterFile WorseChip::running_registers(const RegisterFile& registers, uint32_t enable_mask,
                                          std::optional<bool> was_conv) const {
  namespace con1 = regs::cna::conv_con1;
  if (!was_conv || (enable_mask & kEnableCna) == 0) return registers;
  const uint32_t own = registers.current(Block::kCna).value_or_zero(con1::kOffset);
  const bool is_half = static_cast<Element>(con1::kProcPrecision.raw(own)) == Element::kFp16;
  const TaskKind kind =
      kind_of(is_half, true, con1::kDeconv.raw(own) != 0, con1::kConvMode.raw(own) != 0);
  if (!has(kind, kRegisters, *was_conv ? kOfConvBefore : kOfConvBehindAlone)) return registers;
  RegisterFile found = registers;
  for (const Block block : {Block::kCna, Block::kCore}) found.advance(block);
  // Nothing ran in it: there is nothing stale.
  return found.current(Block::kCna).is_written(con1::kOffset) ? found : registers;
}

void WorseChip::change(WorseTask* task) const {
  WorseTask& t = *task;
  const Noted own{t.plan.operands.bs, t.plan.operands.bn, t.plan.operands.ew_channels};
  const bool keeps = t.plan.is_conv && t.plan.cna.cbuf.weight_reuse;
  note_loads(t);
  const TaskKind kind =
      kind_of(t.is_half(), t.plan.is_conv, t.plan.is_conv && t.plan.cna.deconv.is_on,
              t.plan.is_conv && t.plan.cna.is_depthwise);
  for (const Way* way : ways_[static_cast<int>(kind)]) {
    if (way->change == nullptr) continue;
    t.plan.dpu.is_literal = true;
    way->change(t);
  }
  // Weights of the task before may have been packed in their changed form.
  t.plan.cna.cbuf.weight_reuse = false;
  if (t.plan.dpu.lut.is_on) t.plan.dpu.lut.tables = &t.tables;
  keep(own.bs, &t.left.bs);
  keep(own.bn, &t.left.bn);
  keep(own.ew, &t.left.ew);
  t.left.was_conv = t.plan.is_conv;
  t.left.kept_weights = keeps;
  ++t.left.task;
  if (t.hangs) {
    raise(fault::kNeverCompletes, t.where, "PC.INTERRUPT_MASK", "this chip never ends such a task");
  }
}

void WorseChip::finish(const WorseTask& t) {
  const auto write = [&](const AddressPattern& pattern) {
    return t.memory.write(pattern, t.where, "DPU.DST_BASE_ADDR", "the output");
  };
  for (const AddressPattern& pattern : t.plan.writes) {
    if (!t.writes_zeros) break;
    uint8_t* bytes = write(pattern);
    for (uint64_t row = 0; row < pattern.count; ++row) {
      std::memset(bytes + row * pattern.pitch, 0, pattern.bytes);
    }
  }
  if (!t.first_atom.empty()) {
    std::memcpy(t.plan.output_atom(0, 0, 0), t.first_atom.data(), kAtomBytes);
  }
  if (!t.writes_pairs || t.plan.writes.size() % 2 == 0) return;
  const DpuConfig& dpu = t.plan.dpu;
  const uint64_t behind = t.plan.writes.back().address + dpu.surface_pitch;
  for (uint32_t y = 0; y < dpu.write_height; ++y) {
    const uint64_t bytes = uint64_t{dpu.write_width} * kAtomBytes;
    std::memset(write({behind + y * dpu.line_pitch, bytes, 0, 1}), 0, bytes);
  }
}

}  // namespace rk3588::sim
