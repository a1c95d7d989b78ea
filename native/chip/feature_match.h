// Which features of the hardware the registers of a task ask for (delegate/chip/features.py has the
// same rule).
#pragma once

#include <algorithm>
#include <bitset>

#include "chip/chip_gen.h"
#include "chip/features_gen.h"

namespace rk3588 {

// A bit each, in the order of the chip's table.
inline constexpr size_t kMaxFeatures = 64;
using FeatureSet = std::bitset<kMaxFeatures>;

constexpr bool do_all_features_fit() {
  for (const FeatureTable& table : kFeatureTables) {
    if (table.count > kMaxFeatures) return false;
  }
  return true;
}
static_assert(do_all_features_fit());

inline const FeatureTable& feature_table(const Chip& chip) {
  return kFeatureTables[chip.register_map < kFeatureTables.size() ? chip.register_map : 0];
}

// The features whose settings all hold. `number(setting)` is what the task leaves in the field of a
// setting, 0 if it leaves nothing.
template <typename Number>
FeatureSet matching_features(const FeatureTable& table, Number number) {
  FeatureSet found;
  for (size_t i = 0; i < table.count; ++i) {
    const FeatureSetting* first = table.settings + table.features[i].first;
    const FeatureSetting* last = first + table.features[i].count;
    found[i] = std::all_of(first, last, [&](const FeatureSetting& setting) {
      const uint64_t value = number(setting);
      if (setting.kind == FeatureSetting::Kind::kWord) return value == setting.numbers;
      if (setting.numbers == 0) return value != 0;
      return value < 64 && (setting.numbers >> value & 1) != 0;
    });
  }
  return found;
}

}  // namespace rk3588
