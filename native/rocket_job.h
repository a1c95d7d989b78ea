// One job of the driver rocket: the argument of SUBMIT with everything it points to, built once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rocket_buffer.h"
#include "rocket_uapi.h"
#include "stream_verifier.h"

namespace rk3588 {

// Far above the kernel's own limit of half a second per job, so that others' jobs may come first.
inline constexpr uint32_t kRocketTimeoutMs = 10'000;
inline constexpr int64_t kNsPerMs = 1'000'000;
// The kernel's limit for a job, twice, for what still runs when a file is closed.
inline constexpr int64_t kRocketCloseWaitNs = 2 * int64_t{rocket::kKernelJobTimeoutMs} * kNsPerMs;

struct RocketTask {
  TaskRef task;
  VerifiedTask verified;
};

class RocketJob {
 public:
  // All tasks become one job, so that a job that the kernel drops or resets takes the last task
  // with it, which is what the host looks for. Where the driver offers it, a job whose tasks are
  // linked is one kick. Throws DeviceError.
  RocketJob(std::shared_ptr<RocketFile> file, const std::vector<RocketTask>& tasks,
            const std::vector<RocketBuffer*>& inputs, const std::vector<RocketBuffer*>& outputs);
  RocketJob(const RocketJob&) = delete;
  RocketJob& operator=(const RocketJob&) = delete;

  // Gives the buffers that the host holds back and hands the job over. Throws DeviceError.
  void submit(int64_t deadline_ns);

 private:
  std::string name() const { return "rocket " + file_->file.path(); }
  void choose_flags(const std::vector<RocketTask>& tasks);

  std::shared_ptr<RocketFile> file_;
  std::vector<RocketBuffer*> buffers_;
  std::vector<uint32_t> in_;
  std::vector<uint32_t> out_;
  std::vector<rocket::Task> tasks_;
  rocket::Job job_;
  rocket::Submit submit_;
};

}  // namespace rk3588
