// Ways to go wrong in BS, BN and EW, and on their operands' way there, the DPU's main operand
// included.
#include <algorithm>
#include <cstring>

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

EwStage& ew_of(WorseTask& t) { return t.plan.dpu.ew; }

using CubeOf = OperandCube& (*)(WorseTask&);

OperandCube& main_of(WorseTask& t) { return t.plan.operands.main; }
OperandCube& operand_of(WorseTask& t) { return t.plan.operands.ew; }

// Makes a cube of surfaces that `fill` fills, given the surface's number and how many there are.
template <typename Fill>
void refill(const WorseTask& t, OperandCube* cube, Fill fill) {
  const DpuConfig& dpu = t.plan.dpu;
  // Rows that leave as surfaces are not a cube.
  if (!*cube || (dpu.is_flying && dpu.surfaces_per_group > 1)) return;
  const size_t bytes = size_t{dpu.height} * dpu.width * kAtomBytes;
  const uint32_t surfaces = (dpu.real_channels + cube->lanes() - 1) / cube->lanes();
  auto filled = std::make_shared<std::vector<int8_t>>(bytes * surfaces);
  for (uint32_t s = 0; s < surfaces; ++s) fill(s, surfaces, filled->data() + s * bytes, bytes);
  cube->even = filled->data();
  cube->odd = nullptr;
  cube->pitch = bytes;
  cube->gathered = std::move(filled);
}

void pack_rows(WorseTask& t, OperandCube* cube) {
  if (cube->address == 0) return;
  refill(t, cube, [&](uint32_t s, uint32_t, int8_t* out, size_t bytes) {
    const uint64_t address = cube->address + static_cast<uint64_t>(s * cube->address_pitch);
    std::memcpy(out, t.memory.check({address, bytes, 0, 1}, t.where, "DPU_RDMA", "an operand"),
                bytes);
  });
}

void add_cube_ways(const StageWays& stage, unsigned kinds, CubeOf cube) {
  const struct {
    const char* name;
    const char* what;
    uint32_t (*source)(uint32_t s, uint32_t surfaces);
  } all[] = {
      {"surfaces_swapped", "takes even and odd surfaces of its operand for each other",
       [](uint32_t s, uint32_t surfaces) { return (s ^ 1) < surfaces ? s ^ 1 : s; }},
      {"surfaces_of_next_two", "walks over the surfaces of its operand from the third on",
       [](uint32_t s, uint32_t surfaces) { return (s + 2) % surfaces; }},
      {"surface_of_first", "takes the first surface of its operand for all of them",
       [](uint32_t, uint32_t) { return 0u; }},
  };
  for (const auto& each : all) {
    stage.add(each.name, kinds, each.what, [cube, source = each.source](WorseTask& t) {
      const OperandCube old = cube(t);
      refill(t, &cube(t), [&](uint32_t s, uint32_t surfaces, int8_t* out, size_t bytes) {
        std::memcpy(out, old.surface(source(s, surfaces)), bytes);
      });
    });
  }
  stage.add("rows_packed", kAlones, "reads the rows of its operand as if they had no gap",
            [cube](WorseTask& t) { pack_rows(t, &cube(t)); });
  stage.add_setting(
      "gap", kAlones, "reads rows of an operand with gaps between them",
      [cube](const WorseTask& t) { return cube(const_cast<WorseTask&>(t)).address != 0; });
}

void add_channel_ways(const StageWays& ew) {
  for (const WrongPlace& place : kWrongPlaces) {
    ew.add(std::string("operands_") + place.name, kDpuTasks,
           std::string("reads its operands per channel ") + place.what,
           [&place](WorseTask& t) { take_from(&t.plan.operands.ew_channels, place); });
  }
  ew.add("operands_stale", kDpuTasks,
         "takes the operands per channel of the task before that read any",
         [](WorseTask& t) { take_over(&t.plan.operands.ew_channels, t.left.ew); });
  ew.add("operands_low_byte", kIntegers, "reads the low byte of operands per channel",
         [](WorseTask& t) {
           for (int32_t& e : t.plan.operands.ew_channels) e = static_cast<int8_t>(e);
         });
  ew.add("registers_of_16_bits", kIntegers, "reads 16 bits of operands in registers",
         [](WorseTask& t) {
           for (int32_t& e : ew_of(t).values) e = static_cast<int16_t>(e);
         });
}

void add_conversion_ways(const StageWays& ew) {
  ew.add("conversion_ignored", kIntegers, "does not convert its operand",
         [](WorseTask& t) { ew_of(t).convert = false; });
  ew.add("conversion_offset_ignored", kIntegers, "adds no offset to its operand",
         [](WorseTask& t) { ew_of(t).offset = 0; });
  ew.add("conversion_scale_ignored", kIntegers, "does not scale its operand",
         [](WorseTask& t) { ew_of(t).scale = 1; });
  ew.add("conversion_shift_ignored", kIntegers, "does not shift its operand",
         [](WorseTask& t) { ew_of(t).convert_shift = 0; });
  ew.add("conversion_other_order", kIntegers, "scales its operand before it adds the offset",
         [](WorseTask& t) { ew_of(t).scales_first = !ew_of(t).scales_first; });
  ew.add_roundings("conversion_", kIntegers, "rounds its operand",
                   [](WorseTask& t) { return &ew_of(t).convert_ties; });
}

void add_settings(const StageWays& ew) {
  const struct {
    const char* name;
    const char* what;
    EwOperation operation;
  } operations[] = {{"addition", "adds", EwOperation::kAdd},
                    {"difference", "subtracts", EwOperation::kMinus},
                    {"maximum", "takes a maximum", EwOperation::kMax},
                    {"minimum", "takes a minimum", EwOperation::kMin},
                    {"product", "multiplies in EW", EwOperation::kMul}};
  for (const auto& each : operations) {
    ew.add_setting(each.name, kDpuTasks, each.what,
                   [operation = each.operation](const WorseTask& t) {
                     return t.plan.dpu.ew.operation == operation;
                   });
  }
  const auto add = [&](const char* name, unsigned kinds, const char* what,
                       bool (*has)(const TaskPlan&)) {
    ew.add_setting(name, kinds, what, [has](const WorseTask& t) { return has(t.plan); });
  };
  add("operand_per_pixel", kDpuTasks, "reads an operand of EW per pixel",
      [](const TaskPlan& p) { return static_cast<bool>(p.operands.ew); });
  add("operand_per_channel", kDpuTasks, "reads an operand of EW per channel",
      [](const TaskPlan& p) { return !p.operands.ew_channels.empty(); });
  add("operand_in_register", kDpuTasks, "has an operand of EW in registers",
      [](const TaskPlan& p) { return p.dpu.ew.source == Operand::kRegister; });
  add("wide_operand", kIntegers, "reads an operand of EW of more than 8 bits",
      [](const TaskPlan& p) {
        return p.dpu.ew.source == Operand::kMemory && p.dpu.ew.operand_bytes > 1;
      });
  add("conversion", kIntegers, "converts an operand of EW",
      [](const TaskPlan& p) { return p.dpu.ew.convert; });
  add("conversion_shift", kIntegers, "shifts an operand of EW",
      [](const TaskPlan& p) { return p.dpu.ew.convert && p.dpu.ew.convert_shift != 0; });
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

void add_ew_ways(Ways* ways) {
  add_cube_ways({"main", ways}, kAlones, main_of);
  const StageWays ew("ew", ways);
  add_channel_ways(ew);
  add_cube_ways(ew, kDpuTasks, operand_of);
  add_conversion_ways(ew);
  ew.add("operation_ignored", kDpuTasks, "lets values pass as they came",
         [](WorseTask& t) { ew_of(t).operation = EwOperation::kOff; });
  add_settings(ew);
  ew.add_end([](WorseTask& t) -> StageEnd& { return ew_of(t); },
             [](const WorseTask& t) { return t.plan.dpu.ew.operation == EwOperation::kMul; });
}

}  // namespace rk3588::sim
