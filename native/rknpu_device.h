// The NPU behind the vendor's kernel driver `rknpu` (DRM build, versions 0.8 to 0.9.8).
//
// One submit runs a whole chain in one kick and returns when it is done. The driver reads the task
// table through its own mapping. Vendor kernels crash when two processes drive the NPU at once, so
// a process holds a lock on the node while it has it open. Plans for several cores are not
// expressible here: each submit runs on one core.
#pragma once

#include <memory>
#include <string>

#include "device.h"
#include "drm_file.h"
#include "shared_constants.h"

namespace rk3588 {

// An open node, shared by all streams of the process.
class RknpuFile {
 public:
  // Throws DeviceError: another driver, a version out of range, another process that holds it.
  explicit RknpuFile(const std::string& node);

  DrmFile file;
  DriverVersion version;
  // All streams of the file see the same addresses.
  SharedConstants<Buffer> constants;

 private:
  void lock() const;
};

class RknpuDevice : public Device {
 public:
  // `core`: 0..2, or -1: the driver chooses for every submit. `cores`: see DeviceSettings.
  RknpuDevice(std::shared_ptr<RknpuFile> file, int core, std::string cores);

  std::string name() const override { return "rknpu " + file_->file.path(); }
  std::unique_ptr<Buffer> allocate(size_t size, BufferId id) override;
  std::shared_ptr<Buffer> constants(Span<const uint8_t> content, size_t size) override;
  void sync_for_device(Buffer& buffer) override;
  void sync_for_cpu(Buffer& buffer) override;
  void submit(const Submit& submit) override { prepare(submit)->run(); }
  std::unique_ptr<Submission> prepare(const Submit& submit) override;
  bool proves_completion() const override { return false; }
  std::shared_ptr<Device> open_stream() override;

 private:
  std::shared_ptr<RknpuFile> file_;
  int core_;
  std::string cores_;
};

}  // namespace rk3588
