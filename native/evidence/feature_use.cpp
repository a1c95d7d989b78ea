#include "evidence/feature_use.h"

#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "chip/registers_gen.h"

namespace rk3588 {
namespace {

namespace dpu = sim::regs::dpu;
using Kind = FeatureSetting::Kind;

// What a task leaves in its registers; of addresses the buffer that they point into.
struct TaskRegisters {
  std::map<std::pair<uint16_t, uint16_t>, uint32_t> values;
  uint32_t core = 0;
  bool keeps_table = false;

  uint32_t at(uint16_t target, uint16_t offset) const {
    const auto found = values.find({target, offset});
    return found == values.end() ? 0 : found->second;
  }
};

uint64_t number_of(const TaskRegisters& task, const FeatureSetting& setting) {
  switch (setting.kind) {
    case Kind::kCore:
      return task.core;
    case Kind::kKeepsTable:
      return task.keeps_table ? 1 : 0;
    case Kind::kField:
    case Kind::kWord:
    case Kind::kAddress:
      break;
  }
  return task.at(setting.target, setting.offset) >> setting.lo & setting.mask;
}

// Of RK3588: no other chip's features ask.
bool looks_up(const TaskRegisters& task) {
  const uint32_t word = task.at(dpu::kTarget, dpu::ew_cfg::kOffset);
  return dpu::ew_cfg::kEwBypass.raw(word) == 0 && dpu::ew_cfg::kEwLutBypass.raw(word) == 0 &&
         task.values.count({dpu::kTarget, dpu::ew_cfg::kOffset}) != 0;
}

bool loads_table(const TaskRegisters& task) {
  const uint32_t word = task.at(dpu::kTarget, dpu::lut_access_cfg::kOffset);
  return dpu::lut_access_cfg::kLutAccessType.raw(word) != 0;
}

}  // namespace

FeatureSet features_of(const Program& program) {
  std::unordered_map<uint32_t, uint32_t> buffers;  // by word
  for (const Reloc& reloc : program.relocs) buffers[reloc.word] = reloc.buffer;
  const Span<const uint8_t> regcmd =
      program.buffers[static_cast<size_t>(BufferId::kRegcmd)].content;
  std::optional<std::pair<uint32_t, size_t>> loaded;  // job of the last load, the task behind it
  const FeatureTable& table = feature_table(*program.chip);
  FeatureSet found;
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    const ProgramTask& task = program.tasks[i];
    TaskRegisters registers;
    registers.core = task.core;
    const uint32_t first = task.regcmd_offset / sizeof(uint64_t);
    for (uint32_t word = first; word < first + task.regcmd_count; ++word) {
      uint64_t command = 0;  // as all behind the content
      const size_t at = size_t{word} * sizeof(command);
      if (at < regcmd.size()) {
        std::memcpy(&command, regcmd.data() + at, std::min(sizeof(command), regcmd.size() - at));
      }
      const auto pointed = buffers.find(word);
      registers.values[{static_cast<uint16_t>(command >> 48), static_cast<uint16_t>(command)}] =
          pointed == buffers.end() ? static_cast<uint32_t>(command >> 16) : pointed->second;
    }
    if (loads_table(registers)) loaded = {task.job, i + 1};
    registers.keeps_table = looks_up(registers) && loaded != std::pair(task.job, i);
    found |= matching_features(
        table, [&](const FeatureSetting& setting) { return number_of(registers, setting); });
  }
  return found;
}

}  // namespace rk3588
