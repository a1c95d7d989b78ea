#include "sim/overlap.h"

#include <algorithm>

namespace rk3588::sim {

bool check_overlap(const std::vector<AddressPattern>& outputs, std::vector<AddressPattern> inputs,
                   bool in_place_allowed, const Position& where, const char* reg,
                   const std::string& what) {
  std::sort(inputs.begin(), inputs.end(),
            [](const AddressPattern& a, const AddressPattern& b) { return a.address < b.address; });
  bool overlaps = false;
  uint64_t longest = 0;
  for (const AddressPattern& input : inputs) longest = std::max(longest, input.bytes);
  for (const AddressPattern& out : outputs) {
    const uint64_t from = out.address > longest ? out.address - longest : 0;
    auto input = std::lower_bound(
        inputs.begin(), inputs.end(), from,
        [](const AddressPattern& a, uint64_t address) { return a.address < address; });
    for (; input != inputs.end() && input->address < out.address + out.bytes; ++input) {
      if (input->address + input->bytes <= out.address) continue;
      const bool same = input->address == out.address && input->bytes == out.bytes;
      if (same && in_place_allowed) continue;
      overlaps = true;
      complain(fault::kOutputOverlap, where, reg, "the output ", hex(out.address), "..",
               hex(out.address + out.bytes), " overwrites ", what, " at ", hex(input->address),
               "..", hex(input->address + input->bytes), " that the same task reads");
    }
  }
  return overlaps;
}

}  // namespace rk3588::sim
