// Outputs that overwrite what the same task still reads.
#pragma once

#include <string>
#include <vector>

#include "sim/memory.h"

namespace rk3588::sim {

// Two ranges that start and end at the same address are an in-place operation: every element is
// read before it is written there. Anything else that touches destroys input that other elements
// still need: Fault OutputOverlap at `reg`. `what` names the inputs. Returns whether the lenient
// mode passed over one.
bool check_overlap(const std::vector<AddressPattern>& outputs, std::vector<AddressPattern> inputs,
                   bool in_place_allowed, const Position& where, const char* reg,
                   const std::string& what);

}  // namespace rk3588::sim
