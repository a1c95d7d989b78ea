// Constants that several executables of a process share: weights of the same model, loaded by
// several interpreters, take up memory once.
//
// The hash only finds candidates: contents are compared byte by byte, so nothing is ever shared
// that differs. What is shared lives as long as its last user.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "host/spending_copy.h"
#include "span.h"

namespace rk3588 {

// FNV-1a over words of 8 bytes of the beginning; a rest of fewer bytes counts as a word of its own.
// The whole would have to come into memory, from a file perhaps, for a hash that need not be sure.
inline uint64_t content_hash(Span<const uint8_t> content) {
  constexpr size_t kHashedBytes = size_t{64} << 10;
  uint64_t hash = 0xcbf29ce484222325 ^ content.size();
  const size_t end = content.size() < kHashedBytes ? content.size() : kHashedBytes;
  for (size_t i = 0; i < end; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    const size_t rest = end - i;
    std::memcpy(&word, content.data() + i, rest < sizeof(word) ? rest : sizeof(word));
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;
  }
  return hash;
}

// `Memory` has bytes(), the first of which hold the content.
template <typename Memory>
class SharedConstants {
 public:
  // Memory of `size` bytes that begins with `content`: an older one, or what `make` gives, filled
  // and handed to `prepare` before anybody else sees it. `spend`: as of copy_spending().
  std::shared_ptr<Memory> get(Span<const uint8_t> content, size_t size, Spend spend,
                              const std::function<std::shared_ptr<Memory>()>& make,
                              const std::function<void(Memory&)>& prepare = {}) {
    const uint64_t hash = content_hash(content);
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
    std::memset(bytes.data() + content.size(), 0, bytes.size() - content.size());
    if (prepare) prepare(*memory);
    known_.emplace(hash, memory);
    return memory;
  }

 private:
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
