// Constants that several executables of a process share: weights of the same model, loaded by
// several interpreters, take up memory once.
//
// The hash only finds candidates: contents are compared byte by byte, so nothing is ever shared
// that differs. What is shared lives as long as its last user.
//
// They are copied, and the source is not needed afterwards: two large copies are never whole in
// memory at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "digest.h"
#include "span.h"

namespace rk3588 {

// Told of bytes that nobody reads again, or reads from a file again: their memory may go back.
using Spend = void (*)(Span<const uint8_t> bytes);

// So much of a source stays in memory beside its copy.
inline constexpr size_t kSpentBytes = size_t{256} << 10;

// Copies `source` to the beginning of `target`, which is at least as large and 0 behind it then.
// `spend`: told of every piece that was copied; nullptr: of none.
inline void copy_spending(Span<const uint8_t> source, Span<uint8_t> target, Spend spend) {
  for (size_t begin = 0; begin < source.size();) {
    const size_t bytes = std::min(kSpentBytes, source.size() - begin);
    std::memcpy(target.data() + begin, source.data() + begin, bytes);
    if (spend != nullptr) spend(source.subspan(begin, bytes));
    begin += bytes;
  }
  std::memset(target.data() + source.size(), 0, target.size() - source.size());
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
