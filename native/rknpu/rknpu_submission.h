// A submit for the vendor's driver, in one ioctl for each kick (rknpu_kicks.h).
#pragma once

#include <memory>
#include <vector>

#include "host/run_plan.h"
#include "rknpu/rknpu_device.h"

namespace rk3588 {

// `choice`: the cores that it may use. Throws DeviceError.
std::unique_ptr<Submission> make_rknpu_submission(std::shared_ptr<RknpuFile> file,
                                                  const RknpuCoreChoice& choice,
                                                  const Submit& submit,
                                                  const VerifiedJobs& verified,
                                                  const RunPlan& plan);

}  // namespace rk3588
