#include "host/run_plan.h"

#include "host/proof_plan.h"

namespace rk3588 {

RunPlan plan_run(const Submit& submit, const VerifiedJobs& verified) {
  std::vector<const VerifiedTask*> tasks;
  std::vector<PlannedJob> places;  // of the tasks
  for (size_t job = 0; job < submit.jobs.size(); ++job) {
    for (size_t task = 0; task < verified[job].size(); ++task) {
      tasks.push_back(&verified[job][task]);
      places.push_back({job, task, 1, kNoMark});
    }
  }
  RunPlan plan;
  for (const ProvenTasks& piece : plan_proof(tasks, !submit.outputs_hold_content)) {
    std::vector<PlannedJob>& planned = plan.pieces.emplace_back();
    for (size_t i = piece.first; i < piece.first + piece.count; ++i) {
      if (i > piece.first && planned.back().job == places[i].job) {
        ++planned.back().count;
      } else {
        planned.push_back(places[i]);
      }
    }
    planned.back().mark = piece.mark;
  }
  return plan;
}

}  // namespace rk3588
