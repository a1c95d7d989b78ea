// Which worker runs which job of a submit for several cores, and when.
//
// In: a verified submit whose jobs name stages and cores. Out: per stage and worker the jobs in
// order, how to prove that each ran, and what a worker with a memory of its own has to be given.
// Refuses what only works on one core: jobs of a stage that touch what another one writes, or that
// need what another core left in registers or CBUF.
#pragma once

#include <cstdint>
#include <vector>

#include "device.h"
#include "stream_verifier.h"

namespace rk3588 {

inline constexpr uint64_t kNoMark = UINT64_MAX;

struct PlannedJob {
  size_t job = 0;           // index in the submit
  uint64_t mark = kNoMark;  // an atom that its last task writes and none of its tasks reads
};

struct PlannedCopy {
  size_t from = 0;  // workers
  size_t to = 0;
  sim::AddressRange range;  // in the submit's addresses
};

struct PlannedStage {
  std::vector<std::vector<PlannedJob>> workers;
  std::vector<PlannedCopy> copies;  // after the stage, if workers share no memory
};

struct CorePlan {
  size_t workers = 0;
  std::vector<PlannedStage> stages;
  // What each worker reads of the submit's host_input.
  std::vector<std::vector<sim::AddressRange>> host_input;
  // Whether every job has a mark. Without, a job that the kernel drops would go unnoticed.
  bool is_provable = true;
};

// Whether any job is for another core than the first.
bool uses_cores(const Submit& submit);

// A plan for `workers` cores; the submit may be for more. Throws StreamError.
CorePlan plan_cores(const Submit& submit, const VerifiedJobs& verified, size_t workers);

}  // namespace rk3588
