#include "file_pages.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

namespace rk3588 {
namespace {

// Whether all bytes from `begin` to `end` lie in one mapping of a file that nobody can have changed
// in memory: for such a mapping MADV_DONTNEED loses nothing.
bool is_shared_read_only_file(uintptr_t begin, uintptr_t end) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> maps(std::fopen("/proc/self/maps", "re"),
                                                                &std::fclose);
  char line[512];
  bool at_line_start = true;
  while (maps != nullptr && std::fgets(line, sizeof(line), maps.get()) != nullptr) {
    const bool is_first_piece = at_line_start;
    at_line_start = std::strchr(line, '\n') != nullptr;
    if (!is_first_piece) continue;  // the rest of a long path
    uintptr_t first = 0;
    uintptr_t last = 0;
    char permissions[5] = {};
    unsigned long inode = 0;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %lu", &first, &last, permissions,
                    &inode) != 4) {
      continue;
    }
    if (begin < first || end > last) continue;
    return std::strcmp(permissions, "r--s") == 0 && inode != 0;
  }
  return false;
}

}  // namespace

void release_file_pages(Span<const uint8_t> bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end = (address + bytes.size()) / page * page;
  if (begin >= end || !is_shared_read_only_file(begin, end)) return;
  static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED));
}

void release_freed_memory() {
#ifdef __GLIBC__
  static_cast<void>(malloc_trim(0));
#endif
}

}  // namespace rk3588
