// The NPU behind the vendor's kernel driver `rknpu` (DRM build, versions 0.8 to 0.9.8).
//
// One submit runs a whole chain in one kick and returns when it is done. The driver reads the task
// table through its own mapping. Plans for several cores are not expressible here: each submit runs
// on one core, chosen by the process (RknpuCores).
#pragma once

#include <memory>
#include <string>

#include "host/device.h"
#include "host/stream_verifier.h"
#include "rknpu/rknpu_file.h"

namespace rk3588 {

class RknpuDevice : public Device {
 public:
  // `choice`: cores that submits may use. `cores`: see DeviceSettings.
  RknpuDevice(std::shared_ptr<RknpuFile> file, const RknpuCoreChoice& choice, std::string cores,
              const Chip& chip);

  std::string name() const override { return "rknpu " + file_->file.path(); }
  std::string driver() const override { return file_->file.version().text(); }
  const Chip& chip() const override { return chip_; }
  std::unique_ptr<Buffer> allocate(size_t size, BufferId id) override;
  std::shared_ptr<Buffer> constants(Span<const uint8_t> content, size_t size, Spend spend) override;
  std::shared_ptr<Buffer> adopt(const std::shared_ptr<SharedMemory>& memory, BufferId id) override;
  void sync_for_device(Buffer& buffer) override;
  void sync_for_cpu(Buffer& buffer) override;
  std::unique_ptr<Submission> prepare(const Submit& submit) override;
  std::shared_ptr<Device> open_stream() override;
  std::vector<std::shared_ptr<Device>> open_cores() override;

 private:
  std::shared_ptr<RknpuFile> file_;
  RknpuCoreChoice choice_;
  std::string cores_;
  const Chip& chip_;
};

// `choice`: the cores that it may use. Throws DeviceError.
std::unique_ptr<Submission> make_rknpu_submission(std::shared_ptr<RknpuFile> file,
                                                  const RknpuCoreChoice& choice,
                                                  const Submit& submit,
                                                  const VerifiedJobs& verified);

}  // namespace rk3588
