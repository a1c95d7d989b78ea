// In which pieces a submit runs, and which mark in memory shows that each piece ran.
//
// Kernel drivers drop or reset jobs without a word, and memory then holds what earlier runs left.
// So before a piece runs, an atom gets a mark that its last task must overwrite. No other task of
// the piece writes that atom, or an earlier task would remove the mark, and none reads it. Tasks
// run in order, so the last one that ran vouches for the others.
#pragma once

#include <cstdint>
#include <vector>

#include "host/device.h"
#include "host/stream_verifier.h"

namespace rk3588 {

// No address: every device address fits 32 bits.
inline constexpr uint64_t kNoMark = UINT64_MAX;

// Tasks [first, first + count) of a job of the submit.
struct JobPart {
  size_t job = 0;
  size_t first = 0;
  size_t count = 0;
};

// Tasks that run one after the other. `mark`: the address of an atom; kNoMark: nothing proves them.
struct RunPiece {
  std::vector<JobPart> parts;
  uint64_t mark = kNoMark;
};

// Splits a verified submit into as few pieces as its marks allow, in order: mostly one. A second
// one is needed where earlier tasks write all that the last one writes: spare lanes in front of it,
// or memory that tensors share in time. Pieces are never cut in front of a task that needs what the
// one before it left in the core. Nothing proves a task that works in place: throws StreamError,
// or, where outputs hold content before the run, gives all tasks as one piece without a mark.
std::vector<RunPiece> plan_run(const Submit& submit, const VerifiedJobs& verified);

}  // namespace rk3588
