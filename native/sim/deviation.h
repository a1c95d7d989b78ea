// Ways in which a chip was reported to differ from the simulator, or might: with them the simulator
// plays such a chip, for tests of what must notice it. Never used for results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chip/feature_match.h"
#include "sim/register_file.h"
#include "sim/task.h"

namespace rk3588::sim {

// What is wrong with a chip. Of any feature (docs/features.md): tasks that use it write zeros, or
// never end.
struct Deviations {
  std::vector<std::string> known;  // deviation.cpp lists them
  FeatureSet absent;
  FeatureSet hanging;
  bool empty() const { return known.empty() && absent.none() && hanging.none(); }
};

// Of a list like "table:spikes,ew_product,kept_weights:hangs": a feature is absent, hangs, or
// deviates in a way that was reported. Throws std::invalid_argument that names what is known.
Deviations parse_deviations(const std::string& list, const Chip& chip);

// Whether pooling tasks end.
bool ends_pooling(const Deviations& deviations);

// The registers that a task runs with. `was_conv`: of the task before, if there was one.
RegisterFile running_registers(const Deviations& deviations, const RegisterFile& registers,
                               uint32_t enable_mask, std::optional<bool> was_conv);

// What tasks of a run leave behind that says which features the next ones use.
struct FeatureTrace {
  int task = 0;
  std::optional<bool> was_conv;  // the task before
  bool loads_tables = false;
  bool looks_up = false;
  FeatureSet loader;                    // of the last task that loaded tables
  int behind_load = -1;                 // the task behind the last load of tables
  std::vector<AddressPattern> written;  // of all tasks so far
};

// The features of the chip that a task uses, from the registers of the blocks that it starts;
// several_cores is not seen here.
FeatureSet features_of_task(const Chip& chip, const RegisterFile& registers, uint32_t enable_mask,
                            const FeatureTrace& trace);

// Makes of what a task does what such a chip makes of it. `is_kicked`: by itself, so that what a
// kick loses is lost. `scratch` holds what the plan then points to.
class DeviationScratch {
 public:
  DeviationScratch();
  std::vector<int8_t> weights;
  LutTables spiked;
  LutTables empty;
};
void deviate(const Deviations& deviations, bool is_kicked, DeviationScratch* scratch,
             TaskPlan* plan);

// What the task writes besides its output, or instead of it, after it ran.
void write_more(const Deviations& deviations, const FeatureSet& used, const TaskPlan& plan,
                Memory& memory, const Position& where);

}  // namespace rk3588::sim
