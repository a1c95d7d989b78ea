#include "sim/fast_float.h"

#include "sim/dpu_element.h"

namespace rk3588::sim {

void run_float(const TaskPlan& task, ThreadPool& pool) { run_elements(task, &pool); }

}  // namespace rk3588::sim
