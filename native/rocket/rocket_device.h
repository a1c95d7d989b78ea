// The NPU behind the mainline kernel driver `rocket`.
//
// The kernel gives each open file an address space from 0 up, runs its jobs in order on whichever
// core is free, resets a core whose job takes more than half a second, and reports no failure of a
// job to anybody. So: one file per stream of submits, absolute time-outs, and marks in memory that
// prove runs (PieceSubmission).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/device.h"
#include "host/stream_verifier.h"
#include "rocket/rocket_file.h"

namespace rk3588 {

class RocketDevice : public Device {
 public:
  // `cores`: "auto", or the list that limits how many streams of this process run at once.
  RocketDevice(std::shared_ptr<RocketFile> file, std::string cores, const Chip& chip);

  std::string name() const override { return "rocket " + file_->file.path(); }
  std::string driver() const override { return file_->features.version.text(); }
  const Chip& chip() const override { return chip_; }
  std::unique_ptr<Buffer> allocate(size_t size, BufferId id) override;
  void sync_for_device(Buffer& buffer) override;
  void sync_for_cpu(Buffer& buffer) override;
  std::unique_ptr<Submission> prepare(const Submit& submit) override;
  std::shared_ptr<Device> open_stream() override;
  // As many files: the kernel chooses cores that are free.
  std::vector<std::shared_ptr<Device>> open_cores() override;

 private:
  std::shared_ptr<RocketFile> file_;
  std::string cores_;
  const Chip& chip_;
};

// `file`: that of the submit's buffers. Throws DeviceError.
std::unique_ptr<Submission> make_rocket_submission(std::shared_ptr<RocketFile> file,
                                                   const Submit& submit,
                                                   const VerifiedJobs& verified);

}  // namespace rk3588
