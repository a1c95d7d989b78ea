#include "tflite/file_pages.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

namespace rk3588 {
namespace {

struct Mapping {
  uintptr_t first = 0;
  uintptr_t end = 0;
  char permissions[5] = {};
  unsigned long inode = 0;
};

// Calls `see` with every mapping of this process in ascending order, until it returns false.
template <typename See>
void for_each_mapping(See see) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> maps(std::fopen("/proc/self/maps", "re"),
                                                                &std::fclose);
  char line[512];
  bool at_line_start = true;
  while (maps != nullptr && std::fgets(line, sizeof(line), maps.get()) != nullptr) {
    const bool is_first_piece = at_line_start;
    at_line_start = std::strchr(line, '\n') != nullptr;
    if (!is_first_piece) continue;  // the rest of a long path
    Mapping mapping;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %lu", &mapping.first, &mapping.end,
                    mapping.permissions, &mapping.inode) == 4 &&
        !see(mapping)) {
      return;
    }
  }
}

// Whether all bytes from `begin` to `end` lie in one mapping of a file that nobody can have changed
// in memory: for such a mapping MADV_DONTNEED loses nothing.
bool is_shared_read_only_file(uintptr_t begin, uintptr_t end) {
  bool is_one = false;
  for_each_mapping([&](const Mapping& mapping) {
    if (begin < mapping.first || end > mapping.end) return true;
    is_one = std::strcmp(mapping.permissions, "r--s") == 0 && mapping.inode != 0;
    return false;
  });
  return is_one;
}

// The whole pages in `bytes`: address of the first, and behind the last.
std::pair<uintptr_t, uintptr_t> pages_in(Span<const uint8_t> bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  return {(address + page - 1) / page * page, (address + bytes.size()) / page * page};
}

void release(uintptr_t begin, uintptr_t end) {
  static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED));
}

}  // namespace

void release_file_pages(Span<const uint8_t> bytes) {
  const auto [begin, end] = pages_in(bytes);
  if (begin < end && is_shared_read_only_file(begin, end)) release(begin, end);
}

void release_own_pages(Span<const uint8_t> bytes) {
  const auto [begin, end] = pages_in(bytes);
  if (begin < end) release(begin, end);
}

MappedMemory::MappedMemory(Use use) {
  for_each_mapping([this, use](const Mapping& mapping) {
    constexpr char kLetters[] = "rwx";  // as in /proc/self/maps
    const auto place = static_cast<size_t>(use);
    if (mapping.permissions[place] != kLetters[place]) return true;
    if (!ranges_.empty() && ranges_.back().second == mapping.first) {
      ranges_.back().second = mapping.end;
    } else {
      ranges_.emplace_back(mapping.first, mapping.end);
    }
    return true;
  });
}

std::vector<MappedMemory::Range>::const_iterator MappedMemory::behind(uintptr_t address) const {
  return std::upper_bound(ranges_.begin(), ranges_.end(), address,
                          [](uintptr_t value, const Range& range) { return value < range.second; });
}

bool MappedMemory::touches(Span<const uint8_t> bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const auto found = behind(begin);
  return found != ranges_.end() && found->first < begin + bytes.size();
}

std::string MappedMemory::text(const char* begin) const {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const auto found = behind(address);
  if (begin == nullptr || found == ranges_.end() || address < found->first) return {};
  const size_t room = found->second - address;
  const size_t length = ::strnlen(begin, room);
  return length == room ? std::string() : std::string(begin, length);
}

void release_freed_memory() {
#ifdef __GLIBC__
  static_cast<void>(malloc_trim(0));
#endif
}

}  // namespace rk3588
