#include "rocket/rocket_buffer.h"

#include "rocket/rocket_uapi.h"

namespace rk3588 {

RocketBuffer::RocketBuffer(std::shared_ptr<RocketFile> file, size_t size)
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

RocketBuffer::~RocketBuffer() {
  mapping_.reset();
  file_->close_handle(handle_);
}

void RocketBuffer::give_to_device() {
  rocket::FiniBo fini;
  fini.handle = handle_;
  file_->file.request(rocket::kFiniBo, &fini, "FINI_BO");
  host_holds_ = false;
}

int RocketBuffer::take_for_host(int64_t deadline_ns) {
  if (host_holds_) return 0;
  const int number = file_->wait(handle_, deadline_ns);
  if (number == 0) host_holds_ = true;
  return number;
}

void RocketBuffer::hold(int64_t deadline_ns, const char* what) {
  const int number = take_for_host(deadline_ns);
  if (number != 0) file_->file.fail(what, number);
}

}  // namespace rk3588
