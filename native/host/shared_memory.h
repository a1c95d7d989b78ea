// Memory that other programs and devices share by a descriptor: a dma-buf (of a camera, a decoder,
// udmabuf, ...), or a memfd that is sealed against shrinking.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "span.h"

namespace rk3588 {

class SharedMemory {
 public:
  // Device and inode, which tell one memory from another.
  using Identity = std::pair<dev_t, ino_t>;
  enum class Access : uint64_t { kRead = 1, kWrite = 2 };

  // Duplicates the descriptor and maps the memory. Throws DeviceError: no open descriptor, one of
  // something else, no memory.
  explicit SharedMemory(int descriptor);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int descriptor() const { return fd_; }
  // Whether `descriptor` is one of this memory.
  bool is_behind(int descriptor) const;
  Span<uint8_t> bytes() const { return {data_, size_}; }
  // False for a descriptor that was opened to read alone, as many exporters give.
  bool is_writable() const { return is_writable_; }

  // Its owner has given it up: whoever keeps it is to let it go. Thread-safe.
  void release() { is_released_.store(true, std::memory_order_relaxed); }
  bool is_released() const { return is_released_.load(std::memory_order_relaxed); }

  // Around accesses of the host: a dma-buf's exporter takes care of caches. Throw DeviceError.
  void begin(Access access) const;
  void end(Access access) const;

 private:
  void synchronise(uint64_t flags) const;

  int fd_ = -1;
  Identity identity_{};
  bool is_dma_buf_ = false;
  bool is_writable_ = true;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::atomic<bool> is_released_{false};
};

}  // namespace rk3588
