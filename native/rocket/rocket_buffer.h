// Device memory of a rocket file.
#pragma once

#include <memory>

#include "host/device.h"
#include "rocket/rocket_file.h"
#include "rocket/rocket_uapi.h"

namespace rk3588 {

class RocketBuffer : public Buffer {
 public:
  // Throws DeviceError.
  RocketBuffer(std::shared_ptr<RocketFile> file, size_t size)
      : file_(std::move(file)), size_(size) {
    const std::string what = "CREATE_BO of " + std::to_string(size) + " bytes";
    const size_t pages = whole_pages(size);
    if (size == 0 || pages > UINT32_MAX) throw DeviceError(file_->file.path() + ": " + what);
    rocket::CreateBo create;
    create.size = static_cast<uint32_t>(pages);
    file_->file.request(rocket::kCreateBo, &create, what);
    handle_ = create.handle;
    address_ = create.dma_address;
    try {
      require_32_bit_address(file_->file.path(), address_, pages);
      if (address_ % kDevicePageBytes != 0) {
        throw DeviceError(file_->file.path() + ": " + what + ": the driver gave address " +
                          std::to_string(address_) + ", which is no page");
      }
      mapping_ = std::make_unique<DrmMapping>(file_->file, create.offset, pages);
    } catch (...) {
      file_->close_handle(handle_);
      throw;
    }
  }
  ~RocketBuffer() override {
    mapping_.reset();
    file_->close_handle(handle_);
  }

  uint64_t dma_address() const override { return address_; }
  Span<uint8_t> bytes() override { return {mapping_->data(), size_}; }
  uint32_t handle() const { return handle_; }

  // FINI_BO and PREP_BO. What the host holds is not asked for again, and not given back twice.
  void give_to_device() {
    rocket::FiniBo fini;
    fini.handle = handle_;
    file_->file.request(rocket::kFiniBo, &fini, "FINI_BO");
    host_holds_ = false;
  }
  void give_back_if_held() {
    if (host_holds_) give_to_device();
  }
  // Waits until `deadline_ns` (monotonic). Returns 0: the host has it, or as RocketFile::wait.
  int take_for_host(int64_t deadline_ns) {
    if (host_holds_) return 0;
    const int number = file_->wait(handle_, deadline_ns);
    if (number == 0) host_holds_ = true;
    return number;
  }
  // The same; throws KernelError. `what`: for the message.
  void hold(int64_t deadline_ns, const char* what = "PREP_BO") {
    const int number = take_for_host(deadline_ns);
    if (number != 0) file_->file.fail(what, number);
  }

 private:
  std::shared_ptr<RocketFile> file_;
  size_t size_;
  uint32_t handle_ = 0;
  uint64_t address_ = 0;
  bool host_holds_ = false;
  std::unique_ptr<DrmMapping> mapping_;
};

}  // namespace rk3588
