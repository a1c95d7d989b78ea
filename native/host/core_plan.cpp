#include "host/core_plan.h"

#include <algorithm>
#include <string>

#include "host/proof_plan.h"

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

struct Access {
  Ranges reads;
  Ranges writes;
};

Access access_of(Span<const VerifiedTask> tasks) {
  Access access;
  for (const VerifiedTask& task : tasks) {
    append(access.reads, task.access.reads);
    append(access.writes, task.access.writes);
  }
  access.reads = merged(std::move(access.reads));
  access.writes = merged(std::move(access.writes));
  return access;
}

[[noreturn]] void refuse(size_t job, const std::string& what) {
  throw StreamError("refused before it reached the NPU: job " + std::to_string(job) + " " + what +
                    "; compile the model again");
}

void check_independent(const Access& a, const Access& b, size_t job) {
  if (common(a.writes, b.writes).empty() && common(a.writes, b.reads).empty() &&
      common(a.reads, b.writes).empty()) {
    return;
  }
  refuse(job, "touches what another job of its epoch writes");
}

class Planner {
 public:
  Planner(const Submit& submit, const VerifiedJobs& verified, size_t workers)
      : submit_(submit), verified_(verified) {
    plan_.workers = workers;
    plan_.host_input.resize(workers);
  }

  CorePlan plan() {
    const size_t count = submit_.jobs.size();
    if (plan_.workers == 1) {
      add(0, count);
    } else {
      for (size_t first = 0, end = 0; first < count; first = end) {
        while (end < count && submit_.jobs[end].epoch == submit_.jobs[first].epoch) ++end;
        check_epoch(first, end);
        const size_t begin = plan_.epochs.size();
        for (size_t job = first; job < end; ++job) add(job, job + 1, begin);
      }
      plan_copies();
    }
    return std::move(plan_);
  }

 private:
  size_t worker_of(size_t job) const { return submit_.jobs[job].core % plan_.workers; }

  // Jobs [first, end) run side by side, on cores that may have run anything before.
  void check_epoch(size_t first, size_t end) const {
    std::vector<Access> accesses;
    for (size_t job = first; job < end; ++job) {
      if (verified_[job].front().reuses_cbuf) refuse(job, "needs what another one left in CBUF");
      verify_alone(submit_, job, 0, submit_.jobs[job].tasks.size());
      accesses.push_back(access_of(verified_[job]));
      for (size_t other = 0; other + 1 < accesses.size(); ++other) {
        check_independent(accesses[other], accesses.back(), job);
      }
    }
  }

  // Jobs [first, end), one after the other on one worker, in epochs from `epoch` on.
  void add(size_t first, size_t end, size_t epoch = 0) {
    std::vector<const VerifiedTask*> tasks;
    std::vector<PlannedJob> places;  // of the tasks
    for (size_t job = first; job < end; ++job) {
      for (size_t task = 0; task < verified_[job].size(); ++task) {
        tasks.push_back(&verified_[job][task]);
        places.push_back({job, task, 1, kNoMark});
      }
    }
    for (const ProvenTasks& piece : plan_proof(tasks, !submit_.outputs_hold_content)) {
      if (epoch == plan_.epochs.size()) plan_.epochs.emplace_back().workers.resize(plan_.workers);
      auto& planned = plan_.epochs[epoch++].workers[worker_of(first)];
      for (size_t i = piece.first; i < piece.first + piece.count; ++i) {
        const bool continues = i > piece.first && planned.back().job == places[i].job;
        if (continues) {
          ++planned.back().count;
        } else {
          planned.push_back(places[i]);
        }
      }
      planned.back().mark = piece.mark;
    }
  }

  // What a worker writes goes at once to those that will read it, and to the host.
  void plan_copies() {
    std::vector<Ranges> needed(plan_.workers);  // by what comes later
    if (submit_.host_output != nullptr) needed[0].push_back(range_of(*submit_.host_output));
    for (size_t s = plan_.epochs.size(); s-- > 0;) {
      PlannedEpoch& epoch = plan_.epochs[s];
      for (size_t from = 0; from < plan_.workers; ++from) {
        Ranges written;
        for (const PlannedJob& planned : epoch.workers[from]) {
          append(written, access_of(tasks_of(planned)).writes);
        }
        written = merged(std::move(written));
        for (size_t to = 0; to < plan_.workers; ++to) {
          if (to == from) continue;
          for (const AddressRange& range : common(written, needed[to])) {
            epoch.copies.push_back({from, to, range});
          }
        }
      }
      for (size_t worker = 0; worker < plan_.workers; ++worker) {
        for (const PlannedJob& planned : epoch.workers[worker]) {
          append(needed[worker], access_of(tasks_of(planned)).reads);
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

  Span<const VerifiedTask> tasks_of(const PlannedJob& planned) const {
    return Span<const VerifiedTask>(verified_[planned.job]).subspan(planned.first, planned.count);
  }

  const Submit& submit_;
  const VerifiedJobs& verified_;
  CorePlan plan_;
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
