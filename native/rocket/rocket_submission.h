// A submit for the mainline driver.
//
// The kernel runs the jobs of one open file on one core at a time, in order, and reports no failure
// of theirs: the host waits for each piece (PREP_BO) and looks for the mark that its last task
// overwrites.
#pragma once

#include <memory>

#include "host/device.h"
#include "host/run_plan.h"
#include "host/stream_verifier.h"
#include "rocket/rocket_file.h"

namespace rk3588 {

// `file`: that of the submit's buffers. Throws DeviceError.
std::unique_ptr<Submission> make_rocket_submission(std::shared_ptr<RocketFile> file,
                                                   const Submit& submit,
                                                   const VerifiedJobs& verified,
                                                   const RunPlan& plan);

}  // namespace rk3588
