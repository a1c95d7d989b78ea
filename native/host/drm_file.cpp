#include "host/drm_file.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "host/drm_uapi.h"

namespace rk3588 {
namespace {

// Interrupted requests are repeated; one that never gets through must not hang the process.
constexpr int64_t kRetryNs = 5'000'000'000;
// Between repetitions of a request that the driver was too busy to take.
constexpr long kBusyPauseNs = 50'000;

std::string group_name(gid_t group) {
  std::array<char, 4096> storage{};
  struct group entry{};
  struct group* found = nullptr;
  if (getgrgid_r(group, &entry, storage.data(), storage.size(), &found) == 0 && found != nullptr) {
    return found->gr_name;
  }
  return std::to_string(group);
}

std::string permission_remedy(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return "run as a user who may open it";
  return "add the user to the node's group: sudo usermod -aG " + group_name(status.st_gid) +
         " $USER, then log in again (a container needs the node and the group, too)";
}

// The remedy for an error of the kernel.
std::string remedy(const std::string& path, int number) {
  switch (number) {
    case EACCES:
    case EPERM:
      return permission_remedy(path);
    case ENOENT:
      return "check that the node exists and was passed into the container; `doctor` lists nodes, "
             "device=simulator runs without an NPU";
    case ENODEV:
    case ENXIO:
      return "the device is gone: see dmesg, load the driver again, then load the model again";
    case EBUSY:
      return "something else holds the NPU: stop other programs that use it and try again";
    case ENOMEM:
      return "memory is short: close other programs or interpreters, or use a smaller model";
    case ENOSPC:
      return "the device's 4 GiB address space is full: close other interpreters of this process";
    case EMFILE:
    case ENFILE:
      return "too many files are open: raise the limit (ulimit -n) or close interpreters";
    case EINVAL:
    case ENOTTY:
    case E2BIG:
      return "the driver does not take this request: its version may not be supported; send the "
             "output of `doctor --report`";
    case EIO:
      return "the driver reports a hardware error: see dmesg";
    case ETIMEDOUT:
      return "the NPU did not finish: see dmesg";
    case EINTR:
    case EAGAIN:
      return "the driver kept refusing for seconds: stop other programs that use the NPU";
    default:
      return "see dmesg, and send the output of `doctor --report`";
  }
}

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISDIR(mode)) return "a directory";
  return S_ISREG(mode) ? "a plain file" : "another device";
}

// Opening alone can wait (pipes, serial lines) or do something (watchdogs, tapes): only what may be
// an NPU is opened. Plain files, which only fail to answer, stand for nodes in tests.
void require_node(const std::string& path, const struct stat& status) {
  const unsigned number = major(status.st_rdev);
  const bool may_answer = number == drm::kDrmMajor || number == drm::kAccelMajor;
  if (S_ISREG(status.st_mode) || (S_ISCHR(status.st_mode) && may_answer)) return;
  throw DeviceError(path + " is " + kind_of(status.st_mode) +
                    ", not the node of an NPU; try device=auto, or see `doctor`");
}

}  // namespace

std::string DriverVersion::number() const {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

std::string DriverVersion::text() const { return name + " " + number(); }

bool KernelError::is_of_the_system() const {
  constexpr int kNumbers[] = {ENOMEM, ENOSPC, EMFILE, ENFILE, EACCES, EPERM, ENODEV, ENXIO};
  return std::find(std::begin(kNumbers), std::end(kNumbers), number) != std::end(kNumbers);
}

DrmFile::DrmFile(std::string path) : path_(std::move(path)), owner_(getpid()) {
  struct stat status{};
  if (stat(path_.c_str(), &status) == 0) require_node(path_, status);
  const int64_t deadline = monotonic_ns() + kRetryNs;
  do {
    fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY);
  } while (fd_ < 0 && (errno == EINTR || errno == EAGAIN) && monotonic_ns() < deadline);
  if (fd_ < 0) fail("open", errno);
}

DrmFile::~DrmFile() { close(fd_); }

bool DrmFile::is_mine() const { return getpid() == owner_; }

int DrmFile::try_request(uint32_t code, void* argument, int64_t deadline_ns) const {
  const int64_t deadline = deadline_ns != 0 ? deadline_ns : monotonic_ns() + kRetryNs;
  for (;;) {
    if (ioctl(fd_, static_cast<unsigned long>(code), argument) == 0) return 0;
    const int number = errno;
    if ((number != EINTR && number != EAGAIN) || monotonic_ns() >= deadline) return number;
    if (number == EAGAIN) {
      const struct timespec pause{0, kBusyPauseNs};
      nanosleep(&pause, nullptr);
    }
  }
}

void DrmFile::require_mine(const std::string& what) const {
  if (is_mine()) return;
  throw DeviceError(path_ + ": " + what +
                    ": this process was forked from the one that opened the NPU; load the model in "
                    "the child, or start it with multiprocessing's \"spawn\"");
}

void DrmFile::request(uint32_t code, void* argument, const std::string& what,
                      int64_t deadline_ns) const {
  require_mine(what);
  const int number = try_request(code, argument, deadline_ns);
  if (number != 0) fail(what, number);
}

void DrmFile::fail(const std::string& what, int number) const {
  throw KernelError(
      path_ + ": " + what + ": " + std::strerror(number) + "; " + remedy(path_, number), number);
}

void DrmFile::close_handle(uint32_t handle) const noexcept {
  drm::GemClose close;
  close.handle = handle;
  static_cast<void>(try_request(drm::kCloseHandle, &close));
}

DriverVersion DrmFile::version() const {
  std::array<char, 64> name{};
  drm::Version version;
  version.name = reinterpret_cast<uintptr_t>(name.data());
  version.name_bytes = name.size() - 1;
  request(drm::kGetVersion, &version, "VERSION");
  DriverVersion result;
  result.name = std::string(name.data());
  result.major = version.major;
  result.minor = version.minor;
  result.patch = version.patch;
  return result;
}

DrmMapping::DrmMapping(const DrmFile& file, uint64_t offset, size_t size)
    : size_(size), owner_(getpid()) {
  const int64_t deadline = monotonic_ns() + kRetryNs;
  void* memory;
  do {
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(),
                  static_cast<off_t>(offset));
  } while (memory == MAP_FAILED && (errno == EINTR || errno == EAGAIN) &&
           monotonic_ns() < deadline);
  if (memory == MAP_FAILED) file.fail("mmap of " + std::to_string(size) + " bytes", errno);
  data_ = static_cast<uint8_t*>(memory);
  // The kernel's buffers are shared between processes: a child that wrote to them would change its
  // parent's tensors.
  madvise(memory, size, MADV_DONTFORK);
}

DrmMapping::~DrmMapping() {
  if (getpid() == owner_) munmap(data_, size_);
}

void require_32_bit_address(const std::string& device, uint64_t address, size_t size) {
  constexpr uint64_t kEnd = uint64_t{1} << 32;
  if (address < kEnd && size <= kEnd - address) return;
  throw DeviceError(device + ": the driver placed a buffer of " + std::to_string(size) +
                    " bytes beyond the 4 GiB that the NPU's registers reach; close other "
                    "interpreters, or enable the NPU's IOMMU");
}

}  // namespace rk3588
