// Ways in which a chip was reported to differ from the simulator, or might: with them the simulator
// plays such a chip, for tests of what must notice it. Never used for results.
#pragma once

#include <string>
#include <vector>

#include "sim/task.h"

namespace rk3588::sim {

enum class Deviation {
  kTableSpikes,      // 128 too much near 0 and in runs of equal entries
  kTableLost,        // a kick clears the tables
  kWeightsLost,      // a kick clears the weights in CBUF
  kNoBnMultiplier,   // BN's multipliers in memory count as 1
  kNarrowEwOperand,  // of an operand of 16 bits per channel EW reads the low byte
  kNoEwTruncation,   // EW's shift of products is ignored
  kTiesToEven,       // OUT_CVT rounds all ties to even
  kNoInputSums,      // the sum of inputs is not added
  kPackedRows,       // the rows of a window of columns are read as if they followed each other
  kWideWrites,       // tasks without a convolution write surfaces in pairs
};

// The deviations of a list like "table:spikes,kept_weights:lost" (features of docs/features.md and
// what is wrong with them). Throws std::invalid_argument that names all.
std::vector<Deviation> parse_deviations(const std::string& list);

// Makes of what a task does what such a chip makes of it. `is_kicked`: by itself, so that what a
// kick loses is lost. `scratch` holds what the plan then points to.
class DeviationScratch {
 public:
  DeviationScratch();
  std::vector<int8_t> weights;
  LutTables spiked;
  LutTables empty;
};
void deviate(const std::vector<Deviation>& deviations, bool is_kicked, DeviationScratch* scratch,
             TaskPlan* plan);

// What the task writes besides its output, after it ran.
void write_more(const std::vector<Deviation>& deviations, const TaskPlan& plan, Memory& memory,
                const Position& where);

}  // namespace rk3588::sim
