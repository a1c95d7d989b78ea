// Which tasks can be shown to have run by one mark in memory.
//
// Kernel drivers drop or reset jobs without a word, and memory then holds what earlier runs left.
// So before tasks run, an atom gets a mark that their last one must overwrite: an atom that no
// other of them writes, or an earlier task would remove the mark, and that none of them reads.
// Tasks run in order, so the last one that ran vouches for the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "host/stream_verifier.h"
#include "span.h"

namespace rk3588 {

// Tasks [first, first + count), which `mark`, the address of an atom, proves. kNoMark: nothing
// does.
struct ProvenTasks {
  size_t first = 0;
  size_t count = 0;
  uint64_t mark = kNoMark;
};

// `tasks`, which run one after the other, in as few pieces as this takes, in order: mostly one. A
// second one is needed where earlier tasks write all that the last one writes: spare lanes in front
// of it, or memory that tensors share in time. Pieces are never cut in front of a task that needs
// what the one before it left in the core. Where a task overwrites only what it, or a task that it
// cannot be parted from, reads or writes as well (in place), nothing proves it: throws StreamError,
// or gives all tasks as one piece without a mark if no proof is `needed`.
std::vector<ProvenTasks> plan_proof(Span<const VerifiedTask* const> tasks, bool needed);

}  // namespace rk3588
