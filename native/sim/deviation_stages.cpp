// What a chip does wrong in BS and BN.
#include <algorithm>

#include "sim/deviation.h"

namespace rk3588::sim {
namespace {

// 1.0 in fp16.
constexpr int16_t kHalfOne = 0x3c00;

// BS or BN.
struct XPart {
  const char* name;
  XStage DpuConfig::* config;
  XOperands Operands::* operands;
  XOperands LeftBehind::* left;

  XStage& of(WorseTask& t) const { return t.plan.dpu.*config; }
  const XStage& of(const WorseTask& t) const { return t.plan.dpu.*config; }
};

// Calls do_it for the operands of each use.
template <typename Do>
void for_each(XOperands& operands, const XOperands& older, Do do_it) {
  do_it(&operands.alu, older.alu);
  do_it(&operands.ow, older.ow);
  do_it(&operands.mul, older.mul);
}

void add_operand_ways(const XPart& part, const StageWays& stage) {
  for (const WrongPlace& place : kWrongPlaces) {
    stage.add(std::string("operands_") + place.name, kDpuTasks,
              std::string("reads its operands from memory ") + place.what,
              [part, &place](WorseTask& t) {
                for_each(t.plan.operands.*part.operands, {},
                         [&](auto* own, const auto&) { take_from(own, place); });
              });
  }
  stage.add("operands_stale", kDpuTasks, "takes the operands of the task before that read any",
            [part](WorseTask& t) {
              for_each(t.plan.operands.*part.operands, t.left.*part.left,
                       [](auto* own, const auto& older) { take_over(own, older); });
            });
  stage.add("operands_of_the_rest_zero", kDpuTasks,
            "finds zeros for channels behind the last whole surface, if there is a whole one",
            [part](WorseTask& t) {
              const uint32_t lanes = kAtomBytes / element_bytes(t.plan.dpu.in);
              const uint32_t real = t.plan.dpu.real_channels;
              if (real < lanes) return;
              const auto clear = [&](auto* own, const auto&) {
                if (own->size() < real) return;
                std::fill(own->begin() + real / lanes * lanes, own->end(), 0);
              };
              for_each(t.plan.operands.*part.operands, {}, clear);
            });
}

void add_arithmetic_ways(const XPart& part, const StageWays& stage) {
  stage.add("summand_ignored", kDpuTasks, "adds nothing",
            [part](WorseTask& t) { part.of(t).alu = Operand::kOff; });
  stage.add("multiplier_ignored", kDpuTasks, "multiplies by 1", [part](WorseTask& t) {
    XStage& x = part.of(t);
    if (x.mul == Operand::kOff) return;
    x.mul = Operand::kRegister;
    x.mul_operand = t.is_half() ? kHalfOne : 1;
  });
  stage.add("shift_ignored", kIntegers, "does not shift products",
            [part](WorseTask& t) { part.of(t).shift = part.of(t).shift_negative = 0; });
  stage.add("shift_of_negatives_ignored", kIntegers, "does not shift negative products",
            [part](WorseTask& t) { part.of(t).shift_negative = 0; });
  stage.add("slope_for_all", kDpuTasks, "multiplies values >= 0, too, where it should not",
            [part](WorseTask& t) { part.of(t).mul_prelu = false; });
  stage.add("other_order", kDpuTasks, "adds and multiplies in the other order",
            [part](WorseTask& t) { part.of(t).multiplies_first = !part.of(t).multiplies_first; });
  stage.add_roundings(
      "", kIntegers, "rounds products", [part](WorseTask& t) { return &part.of(t).ties; },
      Ties::kEven);
}

void add_clamp_ways(const XPart& part, const StageWays& stage) {
  stage.add("clamp_missing", kDpuTasks, "lets values below 0 and above the limit pass",
            [part](WorseTask& t) { part.of(t).relu = {}; });
  stage.add("limit_missing", kDpuTasks, "lets values above the limit pass",
            [part](WorseTask& t) { part.of(t).relu.is_limited = false; });
  // Shifts are monotonic: to clamp before them is to clamp behind them to a limit that was shifted.
  stage.add("clamp_before_shift", kIntegers, "clamps products before it shifts them",
            [part](WorseTask& t) {
              XStage& x = part.of(t);
              if (x.mul == Operand::kOff) return;
              const uint32_t shift = x.relu.limit < 0 ? x.shift_negative : x.shift;
              x.relu.limit = saturate32(shift_rounded(x.relu.limit, shift, x.ties));
            });
}

void add_settings(const XPart& part, const StageWays& stage) {
  const auto add = [&](const char* name, const char* what, bool (*has)(const XStage&),
                       unsigned kinds = kDpuTasks) {
    stage.add_setting(name, kinds, what,
                      [part, has](const WorseTask& t) { return has(part.of(t)); });
  };
  add("summand", "adds a register", [](const XStage& x) { return x.alu == Operand::kRegister; });
  add("summand_per_channel", "adds a number per channel",
      [](const XStage& x) { return x.alu == Operand::kMemory; });
  add("multiplier", "multiplies by a register",
      [](const XStage& x) { return x.mul == Operand::kRegister; });
  add("multiplier_per_channel", "multiplies by a number per channel",
      [](const XStage& x) { return x.mul == Operand::kMemory; });
  add(
      "shift", "shifts products",
      [](const XStage& x) { return x.mul != Operand::kOff && (x.shift | x.shift_negative) != 0; },
      kIntegers);
  add("slope", "multiplies negative values only", [](const XStage& x) { return x.mul_prelu; });
  add("clamp", "ends with a clamp", [](const XStage& x) { return x.relu.is_on; });
  add("limit", "ends with an upper limit", [](const XStage& x) { return x.relu.is_limited; });
}

}  // namespace

void add_x_ways(Ways* ways) {
  const XPart parts[] = {{"bs", &DpuConfig::bs, &Operands::bs, &LeftBehind::bs},
                         {"bn", &DpuConfig::bn, &Operands::bn, &LeftBehind::bn}};
  for (const XPart& part : parts) {
    const StageWays stage(part.name, ways);
    add_operand_ways(part, stage);
    add_arithmetic_ways(part, stage);
    add_clamp_ways(part, stage);
    add_settings(part, stage);
  }
}

}  // namespace rk3588::sim
