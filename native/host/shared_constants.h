// Constants that several executables of a process share: weights of the same model, loaded by
// several interpreters, take up memory once.
//
// The hash only finds candidates: contents are compared byte by byte, so nothing is ever shared
// that differs. What is shared lives as long as its last user.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "digest.h"
#include "host/spending_copy.h"
#include "span.h"

namespace rk3588 {

// `Memory` has bytes(), the first of which hold the content.
template <typename Memory>
class SharedConstants {
 public:
  // Memory of `size` bytes that begins with `content`: an older one, or what `make` gives, filled
  // and handed to `prepare` before anybody else sees it. `spend`: as of copy_spending().
  std::shared_ptr<Memory> get(Span<const uint8_t> content, size_t size, Spend spend,
                              const std::function<std::shared_ptr<Memory>()>& make,
                              const std::function<void(Memory&)>& prepare = {}) {
    // Of the beginning: the whole would have to come into memory, from a file perhaps, for a hash
    // that need not be sure.
    const uint64_t hash =
        digest_of(content.subspan(0, std::min(content.size(), kHashedBytes)), content.size());
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [begin, end] = known_.equal_range(hash);
    for (auto entry = begin; entry != end;) {
      const std::shared_ptr<Memory> memory = entry->second.lock();
      if (memory == nullptr) {
        entry = known_.erase(entry);
        continue;
      }
      const Span<uint8_t> bytes = memory->bytes();
      if (bytes.size() == size && std::memcmp(bytes.data(), content.data(), content.size()) == 0 &&
          is_zero_from(bytes, content.size())) {
        return memory;
      }
      ++entry;
    }
    std::shared_ptr<Memory> memory = make();
    const Span<uint8_t> bytes = memory->bytes();
    copy_spending(content, bytes, spend);
    if (prepare) prepare(*memory);
    known_.emplace(hash, memory);
    return memory;
  }

 private:
  static constexpr size_t kHashedBytes = size_t{64} << 10;
  static bool is_zero_from(Span<uint8_t> bytes, size_t first) {
    for (size_t i = first; i < bytes.size(); ++i) {
      if (bytes.data()[i] != 0) return false;
    }
    return true;
  }

  std::mutex mutex_;
  std::unordered_multimap<uint64_t, std::weak_ptr<Memory>> known_;
};

}  // namespace rk3588
