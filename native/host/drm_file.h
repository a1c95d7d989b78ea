// The one place where the process talks to a kernel driver: open, ioctl, mmap, close and the clock.
//
// Every failure becomes a DeviceError of one line: what was asked of which node, what the kernel
// said, and what to do about it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "host/device.h"
#include "span.h"

namespace rk3588 {

// A failed call. `number` is errno.
class KernelError : public DeviceError {
 public:
  KernelError(const std::string& message, int number) : DeviceError(message), number(number) {}
  // It says nothing about what the NPU can do.
  bool is_of_the_system() const;
  int number;
};

struct DriverVersion {
  std::string name;  // "rocket", "rknpu", ...
  int major = 0;
  int minor = 0;
  int patch = 0;

  bool at_least(int a, int b, int c = 0) const {
    if (major != a) return major > a;
    if (minor != b) return minor > b;
    return patch >= c;
  }
  std::string number() const;  // "0.9.8"
  std::string text() const;    // "rknpu 0.9.8"
};

inline constexpr int64_t kNsPerMs = 1'000'000;

// Such a time as condition variables want it.
inline std::chrono::steady_clock::time_point monotonic_time(int64_t ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

class DrmFile {
 public:
  // Opens for reading and writing, closed on exec. Throws KernelError.
  explicit DrmFile(std::string path);
  // Only closes: a forked child must not release what its parent still uses.
  ~DrmFile();
  DrmFile(const DrmFile&) = delete;
  DrmFile& operator=(const DrmFile&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_; }

  // False in a process that was forked after the file was opened. Handles and mappings belong to
  // the process that made them; two processes would overwrite each other's tensors.
  bool is_mine() const;
  // Throws DeviceError in such a process.
  void require_mine(const std::string& what) const;

  // One request; interrupted ones are repeated until `deadline_ns` (monotonic; 0: a few seconds).
  // `what` names the request in messages ("CREATE_BO of 4096 bytes"). Throws KernelError, and
  // DeviceError in a forked child.
  void request(uint32_t code, void* argument, const std::string& what,
               int64_t deadline_ns = 0) const;
  // The same, returning errno (0: success) for callers that expect certain failures.
  int try_request(uint32_t code, void* argument, int64_t deadline_ns = 0) const;
  [[noreturn]] void fail(const std::string& what, int number) const;
  // Gives a buffer's handle back, whatever the driver says.
  void close_handle(uint32_t handle) const noexcept;

  // The driver behind the node. Throws KernelError.
  DriverVersion version() const;

 private:
  std::string path_;
  int fd_ = -1;
  pid_t owner_;
};

// Memory of a buffer in this process. Not inherited by forked children.
class DrmMapping {
 public:
  // Throws KernelError.
  DrmMapping(const DrmFile& file, uint64_t offset, size_t size);
  ~DrmMapping();
  DrmMapping(const DrmMapping&) = delete;
  DrmMapping& operator=(const DrmMapping&) = delete;
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_;
  pid_t owner_;
};

// Throws DeviceError unless [address, address + size) can be reached by 32-bit registers.
void require_32_bit_address(const std::string& device, uint64_t address, size_t size);

}  // namespace rk3588
