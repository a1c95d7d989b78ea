// Whether MEM_SYNC of the vendor's driver does what it is asked.
#pragma once

#include <memory>

#include "rknpu/rknpu_file.h"

namespace rk3588 {

// False where the driver synchronises only the first part of a large buffer, as builds do that
// count the segments that the IOMMU merged. Throws DeviceError.
//
// To the device writes the host's cache to memory, from the device discards it: a byte that was
// written, synchronised, written again and then taken from the device must read as before. Where
// the cache lets nothing of that be seen (an emulator, a coherent NPU), true.
bool synchronises_all(const std::shared_ptr<RknpuFile>& file);

}  // namespace rk3588
