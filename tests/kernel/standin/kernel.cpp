// State, configuration, faults and the functions that tests call.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "host/drm_uapi.h"
#include "standin.h"

namespace standin {
namespace {

struct Fault {
  std::string call;
  uint64_t first = 1;
  uint64_t count = 1;
  std::string action;
};

std::vector<Fault> g_faults;
std::map<std::string, uint64_t> g_calls;

int error_number(const std::string& name) {
  static const std::map<std::string, int> kNumbers = {
      {"ENODEV", ENODEV}, {"EACCES", EACCES}, {"EBUSY", EBUSY},        {"ENOMEM", ENOMEM},
      {"EINTR", EINTR},   {"EAGAIN", EAGAIN}, {"EINVAL", EINVAL},      {"ENOSPC", ENOSPC},
      {"EIO", EIO},       {"EPERM", EPERM},   {"EMFILE", EMFILE},      {"ENOENT", ENOENT},
      {"ENXIO", ENXIO},   {"EFAULT", EFAULT}, {"ETIMEDOUT", ETIMEDOUT}};
  const auto found = kNumbers.find(name);
  return found == kNumbers.end() ? 0 : found->second;
}

void parse_faults(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  while (words >> word) {
    Fault fault;
    const size_t at = word.find('@');
    const size_t is = word.find('=');
    if (at == std::string::npos || is == std::string::npos) std::abort();
    fault.call = word.substr(0, at);
    fault.first = std::strtoull(word.c_str() + at + 1, nullptr, 10);
    fault.action = word.substr(is + 1);
    const size_t star = fault.action.find('*');
    if (star != std::string::npos) {
      fault.count = std::strtoull(fault.action.c_str() + star + 1, nullptr, 10);
      fault.action.resize(star);
    }
    g_faults.push_back(fault);
  }
}

void load_environment() {
  static const bool once = [] {
    const char* faults = std::getenv("RK3588_STANDIN_FAULTS");
    if (faults != nullptr) parse_faults(faults);
    return true;
  }();
  static_cast<void>(once);
}

void before_fork() { kernel().mutex.lock(); }
void after_fork_parent() { kernel().mutex.unlock(); }
void after_fork_child() {
  // A child that inherits nothing is a process like any other.
  kernel().forked = !kernel().files.empty();
  kernel().mutex.unlock();
}

}  // namespace

Kernel& kernel() {
  // Never destroyed: threads of the process may still call at exit.
  static Kernel* instance = [] {
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    return new Kernel;  // NOLINT
  }();
  return *instance;
}

void violation(const std::string& text) {
  kernel().violations.push_back(text);
  if (std::getenv("RK3588_STANDIN_VERBOSE") != nullptr) {
    const std::string line = "stand-in kernel: " + text + "\n";
    static_cast<void>(!write(2, line.data(), line.size()));
  }
}

Action next_action(const std::string& call, std::unique_lock<std::mutex>& lock) {
  load_environment();
  const uint64_t number = ++g_calls[call];
  Action action;
  if (kernel().gone) action.error = ENODEV;
  for (const Fault& fault : g_faults) {
    if (fault.call != call || number < fault.first || number >= fault.first + fault.count) continue;
    const size_t colon = fault.action.find(':');
    const std::string what = fault.action.substr(0, colon);
    const uint64_t value = colon == std::string::npos
                               ? 0
                               : std::strtoull(fault.action.c_str() + colon + 1, nullptr, 10);
    if (what == "hang") {
      action.fate = Fate::kHang;
      action.hang_at = value;
    } else if (what == "long") {
      action.fate = Fate::kLong;
      action.hang_at = value;
    } else if (what == "lost") {
      action.fate = Fate::kLost;
    } else if (what == "garbage") {
      action.fate = Fate::kGarbage;
    } else if (what == "vanish") {
      kernel().gone = true;
      action.error = ENODEV;
    } else if (what == "slow") {
      lock.unlock();
      usleep(static_cast<useconds_t>(value * 1000));
      lock.lock();
    } else {
      action.error = error_number(what);
      if (action.error == 0) std::abort();
    }
  }
  return action;
}

Bo::~Bo() {
  // Not through the hooks: the lock is held.
  if (host != nullptr) syscall(SYS_munmap, host, size);
  if (memory_fd >= 0) syscall(SYS_close, memory_fd);
}

BoPtr make_bo(File& file, uint64_t size) {
  const int memory_fd = memfd_create("standin-bo", MFD_CLOEXEC);
  if (memory_fd < 0 || ftruncate(memory_fd, static_cast<off_t>(size)) != 0) return nullptr;
  return make_bo_of(file, memory_fd, size);
}

BoPtr make_bo_of(File& file, int memory_fd, uint64_t size) {
  auto bo = std::make_shared<Bo>();
  bo->size = size;
  bo->memory_fd = memory_fd;
  void* host = reinterpret_cast<void*>(
      syscall(SYS_mmap, nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, bo->memory_fd, 0));
  if (host == MAP_FAILED) return nullptr;
  bo->host = static_cast<uint8_t*>(host);
  bo->device_memory.assign(size, 0);
  bo->device = {bo->device_memory.data(), bo->device_memory.size()};
  // The lowest free one, as idr_alloc gives it.
  bo->handle = 1;
  while (file.bos.count(bo->handle) != 0) ++bo->handle;
  bo->offset = file.next_offset;
  file.next_offset += size + 0x1000;
  return bo;
}

BoPtr find_bo(File& file, uint32_t handle) {
  const auto found = file.bos.find(handle);
  return found == file.bos.end() ? nullptr : found->second;
}

uint64_t allocate_up(const std::vector<BoPtr>& taken, uint64_t size, uint64_t end) {
  std::map<uint64_t, uint64_t> used;
  for (const BoPtr& bo : taken) used[bo->address] = bo->size;
  uint64_t address = 0;
  for (const auto& [begin, bytes] : used) {
    if (begin - address >= size) break;
    address = begin + bytes;
  }
  return end - address >= size && address <= end ? address : UINT64_MAX;
}

uint64_t allocate_down(const std::vector<BoPtr>& taken, uint64_t size, uint64_t end) {
  std::map<uint64_t, uint64_t> used;
  for (const BoPtr& bo : taken) used[bo->address] = bo->size;
  uint64_t top = end - 0x1000;
  for (auto it = used.rbegin(); it != used.rend(); ++it) {
    if (top - (it->first + it->second) >= size) break;
    top = it->first;
  }
  return top >= size ? top - size : UINT64_MAX;
}

std::vector<BoPtr> bos_of_node(const std::string& path) {
  std::vector<BoPtr> result;
  for (const auto& [descriptor, file] : kernel().files) {
    if (file->path != path) continue;
    for (const auto& [handle, bo] : file->bos) result.push_back(bo);
  }
  return result;
}

int version_request(const File& file, void* argument) {
  auto& version = *static_cast<rk3588::drm::Version*>(argument);
  version.major = file.config.major;
  version.minor = file.config.minor;
  version.patch = file.config.patch;
  const std::string& name = file.config.driver;
  if (version.name != 0) {
    std::memcpy(reinterpret_cast<void*>(version.name), name.data(),
                std::min<size_t>(name.size(), version.name_bytes));
  }
  version.name_bytes = name.size();
  // "0" and "rocket DRM"; nobody reads the others'.
  version.date_bytes = name == "rocket" ? 1 : 0;
  version.description_bytes = name == "rocket" ? 10 : 0;
  return 0;
}

int open_node(const std::string& path, int flags) {
  std::unique_lock<std::mutex> lock(kernel().mutex);
  const Action action = next_action("open", lock);
  if (action.error != 0) {
    errno = action.error;
    return -1;
  }
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path.c_str(), flags, 0));
  if (fd < 0) return -1;
  std::string text(4096, '\0');
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  auto file = std::make_shared<File>();
  file->path = path;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t is = line.find('=');
    if (is == std::string::npos) continue;
    const std::string key = line.substr(0, is);
    const std::string value = line.substr(is + 1);
    if (key == "driver") file->config.driver = value;
    if (key == "hang_ms") file->config.hang_ms = static_cast<unsigned>(std::stoul(value));
    if (key == "cores_clash") file->config.cores_clash = value != "0";
    for (const rk3588::Chip* chip : rk3588::kChips) {
      if (key == "chip" && chip->name == value) file->config.chip = chip;
    }
    if (key == "cores") file->config.cores = static_cast<unsigned>(std::stoul(value));
    if (key == "reset_ms") file->config.reset_ms = static_cast<unsigned>(std::stoul(value));
    if (key == "release_ms") file->config.release_ms = static_cast<unsigned>(std::stoul(value));
    if (key == "rest_ms") file->config.rest_ms = static_cast<unsigned>(std::stoul(value));
    if (key == "meet") file->config.meet = static_cast<unsigned>(std::stoul(value));
    if (key == "sync_bytes") file->config.sync_bytes = std::stoull(value);
    if (key == "address_space_bytes") file->config.address_space_bytes = std::stoull(value);
    if (key == "version") {
      std::sscanf(value.c_str(), "%d.%d.%d", &file->config.major, &file->config.minor,
                  &file->config.patch);
    }
  }
  kernel().files[fd] = file;
  return fd;
}

void close_node(int descriptor) {
  std::unique_lock<std::mutex> lock(kernel().mutex);
  const auto found = kernel().files.find(descriptor);
  if (found == kernel().files.end()) return;
  const FilePtr file = found->second;
  kernel().files.erase(found);
  if (kernel().forked) return;
  if (!file->queue.empty()) {
    violation("a file is closed while its jobs run (stock kernels use freed memory)");
  }
  if (Clock::now() < file->held_until) {
    violation("a file is closed right after its job (stock kernels use freed memory)");
  }
  if (!file->bos.empty() && !kernel().gone) {
    violation("a file is closed with " + std::to_string(file->bos.size()) + " buffers");
  }
}

}  // namespace standin

#define STANDIN_EXPORT extern "C" __attribute__((visibility("default")))

// Replaces the faults; counting starts again, and a device that vanished is back.
STANDIN_EXPORT void standin_set_faults(const char* text) {
  const std::lock_guard<std::mutex> lock(standin::kernel().mutex);
  standin::load_environment();
  standin::g_faults.clear();
  standin::g_calls.clear();
  standin::kernel().gone = false;
  standin::parse_faults(text);
}

STANDIN_EXPORT uint64_t standin_calls(const char* call) {
  const std::lock_guard<std::mutex> lock(standin::kernel().mutex);
  const auto found = standin::g_calls.find(call);
  return found == standin::g_calls.end() ? 0 : found->second;
}

// All calls since the last reset as "NAME=COUNT " in the order of names.
STANDIN_EXPORT size_t standin_all_calls(char* text, size_t size) {
  const std::lock_guard<std::mutex> lock(standin::kernel().mutex);
  std::string all;
  for (const auto& [call, count] : standin::g_calls) {
    all += call + "=" + std::to_string(count) + " ";
  }
  std::snprintf(text, size, "%s", all.c_str());
  return all.size();
}

// The violations so far, one per line, and forgets them.
STANDIN_EXPORT size_t standin_take_violations(char* text, size_t size) {
  const std::lock_guard<std::mutex> lock(standin::kernel().mutex);
  std::string all;
  for (const std::string& line : standin::kernel().violations) all += line + "\n";
  standin::kernel().violations.clear();
  std::snprintf(text, size, "%s", all.c_str());
  return all.size();
}

STANDIN_EXPORT uint64_t standin_live_files() {
  const std::lock_guard<std::mutex> lock(standin::kernel().mutex);
  return standin::kernel().files.size();
}

STANDIN_EXPORT uint64_t standin_live_buffers() {
  const std::lock_guard<std::mutex> lock(standin::kernel().mutex);
  uint64_t count = 0;
  for (const auto& [fd, file] : standin::kernel().files) count += file->bos.size();
  return count;
}

STANDIN_EXPORT uint64_t standin_live_mappings() {
  const std::lock_guard<std::mutex> lock(standin::kernel().mutex);
  return standin::kernel().mappings.size();
}
