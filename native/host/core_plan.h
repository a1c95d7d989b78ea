// Which worker runs which job of a submit for several cores, and when.
//
// In: a verified submit whose jobs name epochs and cores. Out: per epoch and worker the jobs in
// order, how to prove that each ran, and what a worker with a memory of its own has to be given. A
// job that takes several marks takes several epochs. Refuses what only works on one core: jobs of a
// epoch that touch what another one writes, or that need what another core left in registers or
// CBUF.
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

struct PlannedCopy {
  size_t from = 0;  // workers
  size_t to = 0;
  sim::AddressRange range;  // in the submit's addresses
};

struct PlannedEpoch {
  std::vector<std::vector<PlannedJob>> workers;
  std::vector<PlannedCopy> copies;  // after the epoch, if workers share no memory
};

struct CorePlan {
  size_t workers = 0;
  std::vector<PlannedEpoch> epochs;
  // What each worker reads of the submit's host_input.
  std::vector<std::vector<sim::AddressRange>> host_input;

  // The mark of a plan that is a single run of all tasks on one worker, else kNoMark.
  uint64_t only_mark() const {
    return workers == 1 && epochs.size() == 1 ? epochs[0].workers[0].back().mark : kNoMark;
  }
};

// Whether any job is for another core than the first.
bool uses_cores(const Submit& submit);

// A plan for `workers` cores; the submit may be for more. For one worker all jobs are one. Throws
// StreamError.
CorePlan plan_cores(const Submit& submit, const VerifiedJobs& verified, size_t workers);

}  // namespace rk3588
