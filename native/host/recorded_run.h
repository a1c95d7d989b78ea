// A recorded submit run on a device: its buffers get other addresses there, so every address in its
// commands is moved along.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/device.h"

namespace rk3588 {

// `address`: as recorded. `content`: before the run; afterwards what the device left there.
class RecordedBuffer : public Buffer {
 public:
  RecordedBuffer(std::string name, uint64_t address, Span<uint8_t> content)
      : name_(std::move(name)), address_(address), content_(content) {}
  const std::string& name() const { return name_; }
  uint64_t dma_address() const override { return address_; }
  Span<uint8_t> bytes() override { return content_; }

 private:
  std::string name_;
  uint64_t address_;
  Span<uint8_t> content_;
};

// Runs `jobs`, commands for `chip` whose tasks have recorded addresses. Returns the indices of the
// buffers that tasks write; only their contents change. Throws DeviceError: an address outside the
// buffers, a stream that does not verify, and whatever the device meets.
std::vector<size_t> run_recorded(Device& device, std::vector<RecordedBuffer>& buffers,
                                 const std::vector<JobRef>& jobs, const Chip& chip,
                                 uint32_t timeout_ms);

}  // namespace rk3588
