// One job of the driver rocket: the argument of SUBMIT with everything it points to, built once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "host/stream_verifier.h"
#include "rocket/rocket_buffer.h"
#include "rocket/rocket_uapi.h"

namespace rk3588 {

// Far above the kernel's own limit of half a second per job, so that others' jobs may come first.
inline constexpr uint32_t kRocketTimeoutMs = 10'000;
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
  // The buffers must still be there.
  ~RocketJob();
  RocketJob(const RocketJob&) = delete;
  RocketJob& operator=(const RocketJob&) = delete;

  // Gives the buffers that the host holds back and hands the job over. Throws DeviceError.
  void submit(uint32_t timeout_ms);
  // Until the job is done: its outputs are the host's. Throws DeviceError.
  void wait(uint32_t timeout_ms);
  // For a run that was given up and may still go on: nobody may touch its buffers. Throws
  // DeviceError.
  void wait_for_earlier(uint32_t timeout_ms);

 private:
  std::string name() const { return "rocket " + file_->file.path(); }
  void note_done();
  // Nobody waits for it any longer.
  void abandon();
  void choose_flags(const std::vector<RocketTask>& tasks);

  std::shared_ptr<RocketFile> file_;
  std::vector<RocketBuffer*> buffers_;
  std::vector<uint32_t> in_;
  std::vector<uint32_t> out_;
  std::vector<rocket::Task> tasks_;
  rocket::Job job_;
  rocket::Submit submit_;
  RocketBuffer* output_ = nullptr;  // the completion is attached to all outputs: one tells
  bool may_run_ = false;            // handed over, and its end was not seen here
  bool is_abandoned_ = false;
};

}  // namespace rk3588
