// A submit for one core of the vendor's driver, or for several.
//
// All cores share one memory. The driver's own submits for several cores are known to crash it when
// they are made by hand, so each core gets submits of its own, from a thread of its own, as several
// interpreters would make them. An epoch ends when all of them have returned: only then has every
// core written what the next epoch reads.
#pragma once

#include <memory>
#include <vector>

#include "host/core_plan.h"
#include "rknpu/rknpu_device.h"

namespace rk3588 {

// `choices`: which core each worker of the plan uses. Throws DeviceError.
std::unique_ptr<Submission> make_rknpu_submission(std::shared_ptr<RknpuFile> file,
                                                  std::vector<RknpuCoreChoice> choices,
                                                  const Submit& submit,
                                                  const VerifiedJobs& verified,
                                                  const CorePlan& plan);

}  // namespace rk3588
