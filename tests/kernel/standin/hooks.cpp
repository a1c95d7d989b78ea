// The C library's functions that reach device nodes and sysfs, with paths moved below the root and
// requests to the nodes served here.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "standin.h"

namespace {

using standin::kernel;

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

const char* root() { return std::getenv("RK3588_STANDIN_ROOT"); }

// A path as the process names it, moved below the root if it belongs to the stand-in.
class Path {
 public:
  explicit Path(const char* path) : text_(path == nullptr ? "" : path), given_(path) {
    static constexpr std::array<const char*, 13> kOwn = {"/dev/accel",
                                                         "/dev/dri",
                                                         "/dev/rknpu",
                                                         "/sys/class/accel",
                                                         "/sys/class/drm",
                                                         "/sys/module/rocket",
                                                         "/sys/module/rknpu",
                                                         "/sys/kernel/debug",
                                                         "/sys/bus/platform/devices",
                                                         "/sys/bus/platform/drivers/rocket",
                                                         "/proc/rknpu",
                                                         "/proc/device-tree/compatible",
                                                         "/proc/meminfo"};
    const char* base = root();
    if (base == nullptr || path == nullptr) return;
    // std::filesystem may put the root directory's slash twice.
    const char* start = text_.rfind("//", 0) == 0 ? path + 1 : path;
    for (const char* own : kOwn) {
      if (std::strncmp(start, own, std::strlen(own)) == 0) {
        const std::string moved = std::string(base) + start;
        // The system's own, where a test has none to say something else.
        const bool is_optional = std::strncmp(start, "/proc/meminfo", 13) == 0;
        if (is_optional && syscall(SYS_faccessat, AT_FDCWD, moved.c_str(), F_OK) != 0) return;
        text_ = moved;
        given_ = text_.c_str();
        return;
      }
    }
  }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  operator const char*() const { return given_; }  // NOLINT

  // Whether it is a device node below the root.
  bool is_node() const {
    const char* base = root();
    if (base == nullptr || given_ == nullptr) return false;
    for (const char* folder : {"/dev/accel/", "/dev/dri/", "/dev/rknpu"}) {
      if (text_.rfind(std::string(base) + folder, 0) == 0) {
        struct stat status{};
        return next<int (*)(const char*, struct stat*)>("stat")(given_, &status) == 0 &&
               S_ISREG(status.st_mode);
      }
    }
    return false;
  }

 private:
  std::string text_;
  const char* given_;
};

int open_path(const char* name, const char* raw, int flags, mode_t mode) {
  const Path path(raw);
  if (path.is_node() && (flags & O_ACCMODE) == O_RDWR)
    return standin::open_node(std::string(path), flags);
  return next<int (*)(const char*, int, mode_t)>(name)(path, flags, mode);
}

int open_path_at(const char* name, int folder, const char* raw, int flags, mode_t mode) {
  const Path path(raw);
  if (path.is_node() && (flags & O_ACCMODE) == O_RDWR)
    return standin::open_node(std::string(path), flags);
  return next<int (*)(int, const char*, int, mode_t)>(name)(folder, path, flags, mode);
}

mode_t mode_of(int flags, va_list list) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
}

void* map(const char* name, void* address, size_t size, int protection, int flags, int descriptor,
          off_t offset) {
  const auto real = next<void* (*)(void*, size_t, int, int, int, off_t)>(name);
  if (descriptor < 0 || root() == nullptr)
    return real(address, size, protection, flags, descriptor, offset);
  std::unique_lock<std::mutex> lock(kernel().mutex);
  const auto file = kernel().files.find(descriptor);
  if (file == kernel().files.end()) {
    lock.unlock();
    return real(address, size, protection, flags, descriptor, offset);
  }
  const standin::Action action = standin::next_action("mmap", lock);
  int error = action.error;
  standin::BoPtr found;
  for (const auto& [handle, bo] : file->second->bos) {
    if (bo->offset == static_cast<uint64_t>(offset)) found = bo;
  }
  if (error == 0 && (found == nullptr || size > found->size)) {
    standin::violation("mmap of an offset or size that belongs to no buffer");
    error = EINVAL;
  }
  if (error == 0 && (flags & MAP_SHARED) == 0) {
    standin::violation("a private mapping of a buffer");
    if (file->second->config.driver == "rocket") error = EINVAL;
  }
  if (error != 0) {
    errno = error;
    return MAP_FAILED;
  }
  void* memory = real(address, size, protection, flags, found->memory_fd, 0);
  if (memory != MAP_FAILED) kernel().mappings[reinterpret_cast<uintptr_t>(memory)] = size;
  return memory;
}

}  // namespace

int& standin::Inside::depth() {
  // Initial-exec: the library is there from the start, and this must not allocate.
  static __thread int depth __attribute__((tls_model("initial-exec"))) = 0;
  return depth;
}

#define HOOK extern "C" __attribute__((visibility("default")))

// Preloaded, the hooks take the functions' own names. Linked into a program with a sanitizer, which
// has hooks of its own, they are reached through the linker's --wrap, from the program's code only.
#ifdef STANDIN_WRAP
#define open __wrap_open
#define ioctl __wrap_ioctl
#define mmap __wrap_mmap
#define munmap __wrap_munmap
#define close __wrap_close
#endif

#define HOOK_OPEN(name)                             \
  HOOK int name(const char* path, int flags, ...) { \
    va_list list;                                   \
    va_start(list, flags);                          \
    const mode_t mode = mode_of(flags, list);       \
    va_end(list);                                   \
    return open_path(#name, path, flags, mode);     \
  }
#define HOOK_OPENAT(name)                                       \
  HOOK int name(int folder, const char* path, int flags, ...) { \
    va_list list;                                               \
    va_start(list, flags);                                      \
    const mode_t mode = mode_of(flags, list);                   \
    va_end(list);                                               \
    return open_path_at(#name, folder, path, flags, mode);      \
  }
HOOK int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_path("open", path, flags, mode);
}

#ifndef STANDIN_WRAP
HOOK_OPEN(open64)
HOOK_OPENAT(openat)
HOOK_OPENAT(openat64)

HOOK FILE* fopen(const char* path, const char* mode) {
  return next<FILE* (*)(const char*, const char*)>("fopen")(Path(path), mode);
}
HOOK FILE* fopen64(const char* path, const char* mode) {
  return next<FILE* (*)(const char*, const char*)>("fopen64")(Path(path), mode);
}
HOOK DIR* opendir(const char* path) { return next<DIR* (*)(const char*)>("opendir")(Path(path)); }
HOOK int access(const char* path, int mode) {
  return next<int (*)(const char*, int)>("access")(Path(path), mode);
}
HOOK ssize_t readlink(const char* path, char* buffer, size_t size) {
  return next<ssize_t (*)(const char*, char*, size_t)>("readlink")(Path(path), buffer, size);
}
HOOK int stat(const char* path, struct stat* status) {
  return next<int (*)(const char*, struct stat*)>("stat")(Path(path), status);
}
HOOK int stat64(const char* path, struct stat64* status) {
  return next<int (*)(const char*, struct stat64*)>("stat64")(Path(path), status);
}
HOOK int lstat(const char* path, struct stat* status) {
  return next<int (*)(const char*, struct stat*)>("lstat")(Path(path), status);
}
HOOK int lstat64(const char* path, struct stat64* status) {
  return next<int (*)(const char*, struct stat64*)>("lstat64")(Path(path), status);
}

#endif  // STANDIN_WRAP

#ifndef STANDIN_WRAP
// Allocations outside the stand-in while they are counted.
namespace {
std::atomic<bool> g_counting{false};
std::atomic<uint64_t> g_allocations{0};

void count_allocation() {
  if (g_counting.load(std::memory_order_relaxed) && standin::Inside::depth() == 0) {
    g_allocations.fetch_add(1, std::memory_order_relaxed);
  }
}
}  // namespace

extern "C" void* __libc_malloc(size_t size);
extern "C" void* __libc_calloc(size_t count, size_t size);
extern "C" void* __libc_realloc(void* memory, size_t size);

HOOK void* malloc(size_t size) {
  count_allocation();
  return __libc_malloc(size);
}
HOOK void* calloc(size_t count, size_t size) {
  count_allocation();
  return __libc_calloc(count, size);
}
HOOK void* realloc(void* memory, size_t size) {
  count_allocation();
  return __libc_realloc(memory, size);
}
// Starts counting malloc, calloc, realloc and mmap of this process, or stops; returns the count.
HOOK uint64_t standin_count_allocations(int counts) {
  g_counting.store(counts != 0);
  return counts != 0 ? g_allocations.exchange(0) : g_allocations.load();
}
#endif

HOOK int ioctl(int descriptor, unsigned long code, ...) {
  const standin::Inside inside;
  va_list list;
  va_start(list, code);
  void* argument = va_arg(list, void*);
  va_end(list);
  if (root() != nullptr) {
    std::unique_lock<std::mutex> lock(kernel().mutex);
    const auto found = kernel().files.find(descriptor);
    if (found != kernel().files.end()) {
      const standin::FilePtr file = found->second;
      int error = ENOTTY;
      if (kernel().forked) standin::violation("a forked child uses its parent's file");
      if (file->config.driver == "rocket") {
        error = standin::rocket_request(file, static_cast<uint32_t>(code), argument, lock);
      } else if (file->config.driver == "rknpu") {
        error = standin::rknpu_request(file, static_cast<uint32_t>(code), argument, lock);
      } else if (file->config.driver == "rknpu-misc") {
        error = standin::rknpu_misc_request(static_cast<uint32_t>(code), argument);
      } else if (static_cast<uint32_t>(code) == 0xc0406400) {
        error = standin::version_request(*file, argument);
      }
      if (error == 0) return 0;
      errno = error;
      return -1;
    }
  }
  return next<int (*)(int, unsigned long, ...)>("ioctl")(descriptor, code, argument);
}

HOOK void* mmap(void* address, size_t size, int protection, int flags, int descriptor,
                off_t offset) {
#ifndef STANDIN_WRAP
  count_allocation();
#endif
  return map("mmap", address, size, protection, flags, descriptor, offset);
}
#ifndef STANDIN_WRAP
HOOK void* mmap64(void* address, size_t size, int protection, int flags, int descriptor,
                  off_t offset) {
  count_allocation();
  return map("mmap64", address, size, protection, flags, descriptor, offset);
}

#endif

HOOK int munmap(void* address, size_t size) {
  if (root() != nullptr) {
    const std::lock_guard<std::mutex> lock(kernel().mutex);
    kernel().mappings.erase(reinterpret_cast<uintptr_t>(address));
  }
  return next<int (*)(void*, size_t)>("munmap")(address, size);
}

HOOK int close(int descriptor) {
  if (root() != nullptr) standin::close_node(descriptor);
  return next<int (*)(int)>("close")(descriptor);
}
