// fp16 tasks by blocks of channels on several threads; the same results as run_elements.
#pragma once

#include "sim/task.h"
#include "sim/thread_pool.h"

namespace rk3588::sim {

// Input lanes of a group up to which the sums in double precision are exact.
inline constexpr uint32_t kMostInputLanes = 64;

void run_float(const TaskPlan& task, ThreadPool& pool);

}  // namespace rk3588::sim
