// Which features of the hardware the registers of a task ask for (delegate/chip/features.py has the
// same rule).
#pragma once

#include <algorithm>
#include <bitset>

#include "chip/features_gen.h"

namespace rk3588 {

using FeatureSet = std::bitset<kFeatures.size()>;

// The features whose settings all hold. `number(setting)` is what the task leaves in the field of a
// setting, 0 if it leaves nothing.
template <typename Number>
FeatureSet matching_features(Number number) {
  FeatureSet found;
  for (size_t i = 0; i < kFeatures.size(); ++i) {
    const FeatureSetting* first = kFeatureSettings.data() + kFeatures[i].first;
    found[i] = std::all_of(first, first + kFeatures[i].count, [&](const FeatureSetting& setting) {
      const uint64_t value = number(setting);
      if (setting.numbers == 0) return value != 0;
      return value < 64 && (setting.numbers >> value & 1) != 0;
    });
  }
  return found;
}

}  // namespace rk3588
