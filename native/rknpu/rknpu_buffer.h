// Device memory of the rknpu driver.
#pragma once

#include <memory>
#include <string>

#include "host/device.h"
#include "rknpu/rknpu_file.h"
#include "rknpu/rknpu_uapi.h"

namespace rk3588 {

class RknpuBuffer : public Buffer {
 public:
  enum class Use {
    kHost,   // by the host and the NPU
    kTable,  // of tasks: the driver reads it, too
  };
  // Throws DeviceError.
  RknpuBuffer(std::shared_ptr<RknpuFile> file, size_t size, Use use);
  // Memory that others share. Throws DeviceError.
  RknpuBuffer(std::shared_ptr<RknpuFile> file, std::shared_ptr<SharedMemory> memory);
  ~RknpuBuffer() override;

  uint64_t dma_address() const override { return address_; }
  Span<uint8_t> bytes() override {
    return shared_ != nullptr ? shared_->bytes() : Span<uint8_t>(mapping_->data(), size_);
  }
  // The kernel's name of the buffer.
  uint64_t object() const { return object_; }

  // Memory that the host caches needs both directions; for other memory this does nothing. Shared
  // memory is its exporter's to synchronise. `direction`: rknpu::kSync...
  void synchronise(uint32_t direction) { synchronise(direction, 0, size_); }
  // Synchronises the bytes [offset, offset + size) only.
  void synchronise(uint32_t direction, size_t offset, size_t size);

 private:
  // Throws DeviceError.
  void create(rknpu::MemCreate* create, const std::string& what);
  void destroy() noexcept;

  std::shared_ptr<RknpuFile> file_;
  size_t size_;
  uint32_t handle_ = 0;
  uint64_t object_ = 0;
  uint64_t address_ = 0;
  std::unique_ptr<DrmMapping> mapping_;
  std::shared_ptr<SharedMemory> shared_;  // in place of a mapping
};

// Whether MEM_SYNC of the vendor's driver does what it is asked.
// False where the driver synchronises only the first part of a large buffer, as builds do that
// count the segments that the IOMMU merged. Throws DeviceError.
//
// To the device writes the host's cache to memory, from the device discards it: a byte that was
// written, synchronised, written again and then taken from the device must read as before. Where
// the cache lets nothing of that be seen (an emulator, a coherent NPU), true.
bool synchronises_all(const std::shared_ptr<RknpuFile>& file);

}  // namespace rk3588
