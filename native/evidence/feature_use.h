// Which features of the hardware a Program uses, found from the commands of its tasks.
#pragma once

#include "chip/feature_match.h"
#include "program/program.h"

namespace rk3588 {

// The same as delegate/npu/features_used.py finds.
FeatureSet features_of(const Program& program);

}  // namespace rk3588
