// In which pieces a submit runs, and how each is proved to have run.
//
// In: a verified submit. Out: its tasks in order, in as few pieces as marks can prove
// (proof_plan.h); each piece runs after the one before it has ended.
#pragma once

#include <cstdint>
#include <vector>

#include "host/device.h"
#include "host/stream_verifier.h"

namespace rk3588 {

// Tasks [first, first + count) of a job of the submit.
struct PlannedJob {
  size_t job = 0;
  size_t first = 0;
  size_t count = 0;
  uint64_t mark = kNoMark;  // proves them (proof_plan.h), or with kNoMark what follows them does
};

struct RunPlan {
  std::vector<std::vector<PlannedJob>> pieces;

  // The mark of a run in one piece, else kNoMark.
  uint64_t only_mark() const { return pieces.size() == 1 ? pieces[0].back().mark : kNoMark; }
};

// Throws StreamError.
RunPlan plan_run(const Submit& submit, const VerifiedJobs& verified);

}  // namespace rk3588
