// Device memory of a rocket file.
#pragma once

#include <memory>

#include "host/device.h"
#include "rocket/rocket_file.h"

namespace rk3588 {

class RocketBuffer : public Buffer {
 public:
  // Throws DeviceError.
  RocketBuffer(std::shared_ptr<RocketFile> file, size_t size);
  ~RocketBuffer() override;

  uint64_t dma_address() const override { return address_; }
  Span<uint8_t> bytes() override { return {mapping_->data(), size_}; }
  uint32_t handle() const { return handle_; }

  // FINI_BO and PREP_BO. What the host holds is not asked for again, and not given back twice.
  void give_to_device();
  void give_back_if_held() {
    if (host_holds_) give_to_device();
  }
  // Waits until `deadline_ns` (monotonic). Returns 0: the host has it, or as RocketFile::wait.
  int take_for_host(int64_t deadline_ns);
  // The same; throws KernelError. `what`: for the message.
  void hold(int64_t deadline_ns, const char* what = "PREP_BO");

 private:
  std::shared_ptr<RocketFile> file_;
  size_t size_;
  uint32_t handle_ = 0;
  uint64_t address_ = 0;
  bool host_holds_ = false;
  std::unique_ptr<DrmMapping> mapping_;
};

}  // namespace rk3588
