// Ways to go wrong in BS and BN.
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
  stage.add("other_order", kDpuTasks, "adds and multiplies in the other order",
            [part](WorseTask& t) { part.of(t).multiplies_first = !part.of(t).multiplies_first; });
}

void add_settings(const XPart& part, const StageWays& stage) {
  const auto add = [&](const char* name, const char* what, bool (*has)(const XStage&)) {
    stage.add_setting(name, kDpuTasks, what,
                      [part, has](const WorseTask& t) { return has(part.of(t)); });
  };
  add("summand", "adds a register", [](const XStage& x) { return x.alu == Operand::kRegister; });
  add("summand_per_channel", "adds a number per channel",
      [](const XStage& x) { return x.alu == Operand::kMemory; });
  add("multiplier", "multiplies by a register",
      [](const XStage& x) { return x.mul == Operand::kRegister; });
  add("multiplier_per_channel", "multiplies by a number per channel",
      [](const XStage& x) { return x.mul == Operand::kMemory; });
}

}  // namespace

void StageWays::add_end(const EndOf& end,
                        const std::function<bool(const WorseTask&)>& multiplies) const {
  add("shift_ignored", kIntegers, "does not shift products",
      [end](WorseTask& t) { end(t).shift = end(t).shift_negative = 0; });
  add("shift_of_negatives_ignored", kIntegers, "does not shift negative products",
      [end](WorseTask& t) { end(t).shift_negative = 0; });
  add("slope_for_all", kDpuTasks, "multiplies values >= 0, too, where it should not",
      [end](WorseTask& t) { end(t).mul_prelu = false; });
  add_roundings(
      "", kIntegers, "rounds products", [end](WorseTask& t) { return &end(t).ties; }, Ties::kEven);
  add("clamp_missing", kDpuTasks, "lets values below 0 and above the limit pass",
      [end](WorseTask& t) { end(t).relu = {}; });
  add("limit_missing", kDpuTasks, "lets values above the limit pass",
      [end](WorseTask& t) { end(t).relu.is_limited = false; });
  // Shifts are monotonic: to clamp before them is to clamp behind them to a limit that was shifted.
  add("clamp_before_shift", kIntegers, "clamps products before it shifts them",
      [end, multiplies](WorseTask& t) {
        if (!multiplies(t)) return;
        StageEnd& e = end(t);
        const uint32_t shift = e.relu.limit < 0 ? e.shift_negative : e.shift;
        e.relu.limit = saturate32(shift_rounded(e.relu.limit, shift, e.ties));
      });
  const auto add_one = [&](const char* name, unsigned kinds, const char* what,
                           bool (*has)(const StageEnd&)) {
    add_setting(name, kinds, what,
                [end, has](const WorseTask& t) { return has(end(const_cast<WorseTask&>(t))); });
  };
  add_setting("shift", kIntegers, "shifts products", [end, multiplies](const WorseTask& t) {
    const StageEnd& e = end(const_cast<WorseTask&>(t));
    return multiplies(t) && (e.shift | e.shift_negative) != 0;
  });
  add_one("slope", kDpuTasks, "multiplies negative values only",
          [](const StageEnd& e) { return e.mul_prelu; });
  add_one("clamp", kDpuTasks, "ends with a clamp", [](const StageEnd& e) { return e.relu.is_on; });
  add_one("limit", kDpuTasks, "ends with an upper limit",
          [](const StageEnd& e) { return e.relu.is_limited; });
}

void add_x_ways(Ways* ways) {
  const XPart parts[] = {{"bs", &DpuConfig::bs, &Operands::bs, &LeftBehind::bs},
                         {"bn", &DpuConfig::bn, &Operands::bn, &LeftBehind::bn}};
  for (const XPart& part : parts) {
    const StageWays stage(part.name, ways);
    add_operand_ways(part, stage);
    add_arithmetic_ways(part, stage);
    add_settings(part, stage);
    stage.add_end([part](WorseTask& t) -> StageEnd& { return part.of(t); },
                  [part](const WorseTask& t) { return part.of(t).mul != Operand::kOff; });
  }
}

}  // namespace rk3588::sim
