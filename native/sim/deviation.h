// Chips that differ from the simulator, by stage of the pipeline and kind of task, as some were
// reported to and others might: for tests of what must notice them. Never used for results.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/register_file.h"
#include "sim/task.h"

namespace rk3588::sim {

// Kinds of tasks. `kTransposed`: a convolution of pixels with zeros between them; `kAlone`: the DPU
// without one; `kAll`: whatever runs.
enum class TaskKind {
  kDense,
  kDepthwise,
  kTransposed,
  kAlone,
  kHalfDense,
  kHalfDepthwise,
  kHalfTransposed,
  kHalfAlone,
  kPooling,
  kAll,
};
inline constexpr int kTaskKinds = 10;

// One way to be worse: "kind:stage:way" is its name, `what` completes "Such a task ...".
struct Deviation {
  const char* kind;
  const char* stage;
  std::string way;
  std::string what;
  std::string name() const { return std::string(kind) + ":" + stage + ":" + way; }
};
// All of them.
std::vector<Deviation> known_deviations();

// The traces of earlier tasks of a run by which later ones can go wrong.
struct LeftBehind {
  int task = 0;
  std::optional<bool> was_conv;  // the task before, if there was one
  bool kept_weights = false;     // the task before did
  int table_reader = -1;         // the task behind the last load of tables
  LutTables tables;              // of the last load and the one before
  LutTables older_tables;
  std::vector<int8_t> weights;  // alike
  std::vector<int8_t> older_weights;
  XOperands bs;  // of the last task that read any
  XOperands bn;
  std::vector<int32_t> ew;
};

// A task as such a chip runs it.
struct WorseTask {
  TaskPlan& plan;
  LeftBehind& left;
  Memory& memory;
  const Position& where;
  bool is_kicked;    // by itself
  bool loads_table;  // all entries of both
  bool hangs = false;
  bool writes_zeros = false;
  bool writes_pairs = false;            // of surfaces
  bool is_skipped = false;              // memory stays as it was
  std::vector<int8_t> first_atom = {};  // to be put back
  LutTables tables = {};                // what the plan then looks into

  bool is_half() const { return plan.dpu.computes_in_float(); }
  std::vector<int8_t> weights() const {
    if (plan.weight_bytes) return *plan.weight_bytes;
    return {plan.weights, plan.weights + plan.cna.weights.bytes};
  }
};

using Change = std::function<void(WorseTask&)>;
// A deviation of several kinds, one bit each. Registers are another chip's before the task is
// decoded, or the PPU's: those have no `change`.
struct Way {
  const char* stage;
  std::string name;
  std::string what;
  unsigned kinds;
  Change change;
};
using Ways = std::vector<Way>;
void add_input_ways(Ways* ways);   // CNA, CBUF, CORE (deviation_input.cpp)
void add_x_ways(Ways* ways);       // BS and BN (deviation_stages.cpp)
void add_ew_ways(Ways* ways);      // EW (deviation_stages.cpp)
void add_table_ways(Ways* ways);   // its tables (deviation_output.cpp)
void add_output_ways(Ways* ways);  // OUT_CVT and what is written (deviation_output.cpp)

// A chip with the deviations of a list "depthwise:bs:multiplier_ignored,...".
class WorseChip {
 public:
  // Throws std::invalid_argument for names that are not known.
  explicit WorseChip(const std::string& list);
  bool is_healthy() const { return is_healthy_; }
  bool ends_pooling() const;
  // The registers that a task runs with.
  RegisterFile running_registers(const RegisterFile& registers, uint32_t enable_mask,
                                 std::optional<bool> was_conv) const;
  // Makes of a task what such a chip makes of it, notes what it leaves. Throws Fault if it hangs.
  void change(WorseTask* task) const;
  // Writes what the chip writes besides the task's output, or instead of it, after the task ran.
  static void finish(const WorseTask& task);

 private:
  bool has(TaskKind kind, const std::string& stage, const std::string& way) const;

  bool is_healthy_ = true;
  std::array<std::vector<const Way*>, kTaskKinds> ways_;
};

using EndOf = std::function<StageEnd&(WorseTask&)>;

// Ways of one stage.
class StageWays {
 public:
  StageWays(const char* stage, Ways* ways) : stage_(stage), ways_(ways) {}
  void add(const std::string& name, unsigned kinds, const std::string& what, Change change) const {
    ways_->push_back({stage_, name, what, kinds, std::move(change)});
  }
  // A setting that tasks may have: those with it hang, or write zeros.
  void add_setting(const std::string& name, unsigned kinds, const std::string& what,
                   const std::function<bool(const WorseTask&)>& has) const;
  // The end of a stage (StageEnd): its shift, its rounding, its clamp.
  void add_end(const EndOf& end, const std::function<bool(const WorseTask&)>& multiplies) const;
  // A shift: how `ties` would round it instead; `rounding` begins what it says. `own`: how it
  // always rounds, if no register says so.
  void add_roundings(const std::string& prefix, unsigned kinds, const std::string& rounding,
                     const std::function<Ties*(WorseTask&)>& ties,
                     std::optional<Ties> own = std::nullopt) const;

 private:
  const char* stage_;
  Ways* ways_;
};

constexpr unsigned bit(TaskKind kind) { return 1u << static_cast<int>(kind); }
inline constexpr unsigned kIntegerConvs =
    bit(TaskKind::kDense) | bit(TaskKind::kDepthwise) | bit(TaskKind::kTransposed);
inline constexpr unsigned kHalfConvs =
    bit(TaskKind::kHalfDense) | bit(TaskKind::kHalfDepthwise) | bit(TaskKind::kHalfTransposed);
inline constexpr unsigned kConvs = kIntegerConvs | kHalfConvs;
inline constexpr unsigned kAlones = bit(TaskKind::kAlone) | bit(TaskKind::kHalfAlone);
inline constexpr unsigned kIntegers = kIntegerConvs | bit(TaskKind::kAlone);
inline constexpr unsigned kHalves = kHalfConvs | bit(TaskKind::kHalfAlone);
inline constexpr unsigned kDpuTasks = kIntegers | kHalves;

// Operands per channel that a chip takes from the wrong place: where channel `c` of `count` reads.
struct WrongPlace {
  const char* name;
  const char* what;
  uint32_t (*source)(uint32_t c, uint32_t count);
};
inline constexpr WrongPlace kWrongPlaces[] = {
    {"of_next_8", "of the next 8 channels",
     [](uint32_t c, uint32_t count) { return (c + 8) % count; }},
    {"of_next_32", "of the next 32 channels",
     [](uint32_t c, uint32_t count) { return (c + 32) % count; }},
    {"of_first_32", "of the first 32 channels", [](uint32_t c, uint32_t) { return c % 32; }},
};

template <typename Number>
void take_from(std::vector<Number>* numbers, const WrongPlace& place) {
  const std::vector<Number> old = *numbers;
  const auto count = static_cast<uint32_t>(old.size());
  for (uint32_t c = 0; c < count; ++c) (*numbers)[c] = old[place.source(c, count)];
}

// As far as both go.
template <typename Number>
void take_over(std::vector<Number>* numbers, const std::vector<Number>& older) {
  std::copy_n(older.begin(), std::min(older.size(), numbers->size()), numbers->begin());
}

}  // namespace rk3588::sim
