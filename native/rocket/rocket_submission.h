// A submit for one core of the mainline driver, or for several.
//
// The kernel runs the jobs of one open file on one core at a time, and every file has an address
// space and buffers of its own. So each core gets a file with copies of all buffers; after every
// epoch the host waits for all of them (PREP_BO) and copies what the others will read.
#pragma once

#include <memory>
#include <vector>

#include "host/core_plan.h"
#include "rocket/rocket_device.h"

namespace rk3588 {

// `files`: of the workers, the first is the one of the submit's buffers. Throws DeviceError.
std::unique_ptr<Submission> make_rocket_submission(std::vector<std::shared_ptr<RocketFile>> files,
                                                   const Submit& submit,
                                                   const VerifiedJobs& verified,
                                                   const CorePlan& plan);

}  // namespace rk3588
