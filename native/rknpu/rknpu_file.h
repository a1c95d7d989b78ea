// An open node of the vendor's driver, one for each device and process.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "host/device.h"
#include "host/drm_file.h"
#include "host/shared_constants.h"
#include "rknpu/rknpu_cores.h"

namespace rk3588 {

// Shared by all streams of the process. Vendor kernels crash when two processes drive the NPU at
// once, so a process holds a lock on the device while it has it open: after a reset until the NPU
// has rested, because the next process knows of no reset.
class RknpuFile {
  struct Opened;
  // Destroyed last.
  std::shared_ptr<Opened> opened_;
  std::unique_lock<std::recursive_mutex> closing_;

 public:
  // The process's file of the device behind `node`, whichever of its nodes opened it. Throws
  // DeviceError: another driver, a version out of range, another process that holds the device.
  static std::shared_ptr<RknpuFile> open(const std::string& node);
  ~RknpuFile();
  RknpuFile(const RknpuFile&) = delete;
  RknpuFile& operator=(const RknpuFile&) = delete;

  DrmFile file;
  DriverVersion version;
  RknpuCores cores;
  // All streams of the file see the same addresses.
  SharedConstants<Buffer> constants;
  // The driver gives one handle to all buffers of the same shared memory: how many have it.
  struct SharedHandles {
    std::mutex mutex;
    std::map<uint32_t, size_t> uses;
  } shared_handles;

  // Whether memory is cached by the host and synchronised by MEM_SYNC. Not where the driver
  // synchronises only a part of large buffers: memory is write-combined there.
  bool is_cached() const { return is_cached_; }
  // MEM_CREATE's flags. `is_table`: of memory that the driver itself reads.
  uint32_t memory_flags(bool is_table) const;

 private:
  RknpuFile(const std::string& node, std::shared_ptr<Opened> opened);
  void lock(int descriptor) const;
  // As the device's runtime power management says; false where nothing does.
  bool is_powered() const;

  bool is_cached_ = true;
  int device_folder_ = -1;  // in sysfs, the same for all nodes of the device; -1: no sysfs
};

}  // namespace rk3588
