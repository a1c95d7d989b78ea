// A recorded submit run on a device: its buffers get other addresses there, so every address in its
// commands is moved along.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/device.h"

namespace rk3588 {

struct RecordedBuffer {
  std::string name;
  uint64_t address = 0;   // as recorded
  Span<uint8_t> content;  // before the run; afterwards what the device left there
};

// Runs `jobs`, whose tasks have recorded addresses. Returns the indices of the buffers that tasks
// write; only their contents change. Throws DeviceError: an address outside the buffers, a stream
// that does not verify, and whatever the device meets.
std::vector<size_t> run_recorded(Device& device, Span<const RecordedBuffer> buffers,
                                 const std::vector<JobRef>& jobs, uint32_t timeout_ms);

}  // namespace rk3588
