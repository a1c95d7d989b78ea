#include "host/shared_memory.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "host/device.h"

namespace rk3588 {
namespace {

// DMA_BUF_IOCTL_SYNC of the kernel's interface for dma-bufs: a word of flags.
constexpr unsigned long kSync = 0x40086200;
constexpr uint64_t kSyncStart = 0;
constexpr uint64_t kSyncEnd = 4;

int request_sync(int descriptor, uint64_t flags) {
  int result;
  do {
    result = ioctl(descriptor, kSync, &flags);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result == 0 ? 0 : errno;
}

[[noreturn]] void fail(int descriptor, const std::string& text) {
  throw DeviceError("buffer handle " + std::to_string(descriptor) + " " + text);
}

[[noreturn]] void fail_with(int descriptor, const std::string& what, int number) {
  fail(descriptor, what + ": " + std::strerror(number));
}

SharedMemory::Identity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino};
}

// A dma-buf keeps its size. Of other files only a sealed one does: one that shrinks takes the
// process with it.
bool is_sealed(int descriptor) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

// Closes what a constructor that throws has opened.
struct Closing {
  int descriptor;
  ~Closing() {
    if (descriptor >= 0) close(descriptor);
  }
};

}  // namespace

SharedMemory::SharedMemory(int descriptor) {
  Closing own{fcntl(descriptor, F_DUPFD_CLOEXEC, 0)};
  if (own.descriptor < 0) fail_with(descriptor, "is no open file", errno);
  struct stat status{};
  if (fstat(own.descriptor, &status) != 0) fail_with(descriptor, "cannot be looked at", errno);
  identity_ = identity_of(status);
  const auto access = static_cast<uint64_t>(Access::kRead);
  is_dma_buf_ = request_sync(own.descriptor, kSyncStart | access) == 0;
  if (is_dma_buf_) request_sync(own.descriptor, kSyncEnd | access);
  if (!is_dma_buf_ && !is_sealed(own.descriptor)) {
    fail(descriptor, "is neither a dma-buf nor a memfd with F_SEAL_SHRINK");
  }
  const off_t size = lseek(own.descriptor, 0, SEEK_END);
  if (size <= 0) fail(descriptor, "has no memory");
  size_ = static_cast<size_t>(size);
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, own.descriptor, 0);
  if (memory == MAP_FAILED && (errno == EACCES || errno == EPERM)) {
    is_writable_ = false;
    memory = mmap(nullptr, size_, PROT_READ, MAP_SHARED, own.descriptor, 0);
  }
  if (memory == MAP_FAILED) fail_with(descriptor, "cannot be mapped", errno);
  data_ = static_cast<uint8_t*>(memory);
  fd_ = std::exchange(own.descriptor, -1);
}

SharedMemory::~SharedMemory() {
  munmap(data_, size_);
  close(fd_);
}

bool SharedMemory::is_behind(int descriptor) const {
  struct stat status{};
  return fstat(descriptor, &status) == 0 && identity_of(status) == identity_;
}

void SharedMemory::begin(Access access) const {
  synchronise(kSyncStart | static_cast<uint64_t>(access));
}

void SharedMemory::end(Access access) const {
  synchronise(kSyncEnd | static_cast<uint64_t>(access));
}

void SharedMemory::synchronise(uint64_t flags) const {
  if (!is_dma_buf_) return;
  const int number = request_sync(fd_, flags);
  if (number != 0) fail_with(fd_, "cannot be synchronised", number);
}

}  // namespace rk3588
