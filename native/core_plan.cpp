#include "core_plan.h"

#include <algorithm>
#include <string>

#include "run_mark.h"

namespace rk3588 {
namespace {

using sim::AddressRange;
using Ranges = std::vector<AddressRange>;

// Sorted, and those that touch merged.
Ranges merged(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  Ranges result;
  for (const AddressRange& range : ranges) {
    if (!result.empty() && range.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, range.end);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

// Of two merged lists, what both have.
Ranges common(const Ranges& a, const Ranges& b) {
  Ranges result;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const uint64_t begin = std::max(a[i].begin, b[k].begin);
    const uint64_t end = std::min(a[i].end, b[k].end);
    if (begin < end) result.push_back({begin, end});
    (a[i].end < b[k].end ? i : k) += 1;
  }
  return result;
}

void append(Ranges& target, const Ranges& more) {
  target.insert(target.end(), more.begin(), more.end());
}

AddressRange range_of(Buffer& buffer) {
  return {buffer.dma_address(), buffer.dma_address() + buffer.bytes().size()};
}

struct JobAccess {
  Ranges reads;
  Ranges writes;
  uint64_t mark = kNoMark;
};

// The last or first atom of a surface that the task writes and `reads` (merged) leave alone; from
// the last surface of real channels, because it is written last.
uint64_t find_mark(const sim::TaskAccess& task, const Ranges& reads) {
  for (size_t i = task.real_writes; i-- > 0;) {
    const AddressRange& surface = task.writes[i];
    for (const uint64_t atom : {surface.end - RunMark::kBytes, surface.begin}) {
      if (common({{atom, atom + RunMark::kBytes}}, reads).empty()) return atom;
    }
  }
  return kNoMark;
}

JobAccess access_of(const Submit& submit, size_t job) {
  const std::vector<sim::TaskAccess> tasks =
      verify_alone(submit, job, 0, submit.jobs[job].tasks.size());
  JobAccess access;
  for (const sim::TaskAccess& task : tasks) {
    append(access.reads, task.reads);
    append(access.writes, task.writes);
  }
  access.reads = merged(std::move(access.reads));
  access.writes = merged(std::move(access.writes));
  access.mark = find_mark(tasks.back(), access.reads);
  return access;
}

[[noreturn]] void refuse(size_t job, const std::string& what) {
  throw StreamError("refused before it reached the NPU: job " + std::to_string(job) + " " + what +
                    "; compile the model again");
}

void check_independent(const JobAccess& a, const JobAccess& b, size_t job) {
  if (common(a.writes, b.writes).empty() && common(a.writes, b.reads).empty() &&
      common(a.reads, b.writes).empty()) {
    return;
  }
  refuse(job, "touches what another job of its stage writes");
}

class Planner {
 public:
  Planner(const Submit& submit, const VerifiedJobs& verified, size_t workers)
      : submit_(submit), verified_(verified) {
    plan_.workers = workers;
    plan_.host_input.resize(workers);
  }

  CorePlan plan() {
    for (size_t job = 0; job < submit_.jobs.size(); ++job) add(job);
    plan_copies();
    return std::move(plan_);
  }

 private:
  size_t worker_of(size_t job) const { return submit_.jobs[job].core % plan_.workers; }

  void add(size_t job) {
    if (verified_[job].front().reuses_cbuf) refuse(job, "needs what another one left in CBUF");
    const bool is_new = job == 0 || submit_.jobs[job].stage != submit_.jobs[job - 1].stage;
    if (is_new) {
      plan_.stages.emplace_back().workers.resize(plan_.workers);
      first_of_stage_ = job;
    }
    accesses_.push_back(access_of(submit_, job));
    for (size_t other = first_of_stage_; other < job; ++other) {
      check_independent(accesses_[other], accesses_[job], job);
    }
    const uint64_t mark = accesses_[job].mark;
    if (mark == kNoMark) plan_.is_provable = false;
    plan_.stages.back().workers[worker_of(job)].push_back({job, mark});
  }

  // What a worker writes goes at once to those that will read it, and to the host.
  void plan_copies() {
    std::vector<Ranges> needed(plan_.workers);  // by what comes later
    if (submit_.host_output != nullptr) needed[0].push_back(range_of(*submit_.host_output));
    for (size_t s = plan_.stages.size(); s-- > 0;) {
      PlannedStage& stage = plan_.stages[s];
      for (size_t from = 0; from < plan_.workers; ++from) {
        Ranges written;
        for (const PlannedJob& planned : stage.workers[from]) {
          append(written, accesses_[planned.job].writes);
        }
        written = merged(std::move(written));
        for (size_t to = 0; to < plan_.workers; ++to) {
          if (to == from) continue;
          for (const AddressRange& range : common(written, needed[to])) {
            stage.copies.push_back({from, to, range});
          }
        }
      }
      for (size_t worker = 0; worker < plan_.workers; ++worker) {
        for (const PlannedJob& planned : stage.workers[worker]) {
          append(needed[worker], accesses_[planned.job].reads);
        }
        needed[worker] = merged(std::move(needed[worker]));
      }
    }
    if (submit_.host_input == nullptr) return;
    const Ranges input = {range_of(*submit_.host_input)};
    for (size_t worker = 0; worker < plan_.workers; ++worker) {
      plan_.host_input[worker] = common(input, needed[worker]);
    }
  }

  const Submit& submit_;
  const VerifiedJobs& verified_;
  CorePlan plan_;
  std::vector<JobAccess> accesses_;
  size_t first_of_stage_ = 0;
};

}  // namespace

bool uses_cores(const Submit& submit) {
  return std::any_of(submit.jobs.begin(), submit.jobs.end(),
                     [](const JobRef& job) { return job.core != 0; });
}

CorePlan plan_cores(const Submit& submit, const VerifiedJobs& verified, size_t workers) {
  return Planner(submit, verified, workers).plan();
}

}  // namespace rk3588
