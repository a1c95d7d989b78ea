#include "rknpu/rknpu_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "host/devices.h"
#include "rknpu/rknpu_buffer.h"
#include "rknpu/rknpu_uapi.h"

namespace rk3588 {
namespace {

namespace fs = std::filesystem;

// The folder in sysfs of the device that a node belongs to. card0 and renderD128 have the same one.
std::string device_folder(const std::string& node) {
  std::error_code error;
  const fs::path path(node);
  // Names in /dev/dri/by-path are links.
  const fs::path target = fs::read_symlink(path, error);
  const fs::path name = (error ? path : target).filename();
  return (fs::path("/sys/class/drm") / name / "device").string();
}

// A process, and the device by its folder in sysfs or else by the node.
using DeviceKey = std::tuple<pid_t, dev_t, ino_t>;

DeviceKey device_key(const std::string& node) {
  struct stat status{};
  if (stat(device_folder(node).c_str(), &status) != 0 && stat(node.c_str(), &status) != 0) {
    return {getpid(), 0, 0};
  }
  return {getpid(), status.st_dev, status.st_ino};
}

}  // namespace

// The process's open devices. A device is opened and closed with the lock held.
struct RknpuFile::Opened {
  struct Known {
    std::weak_ptr<RknpuFile> file;
    bool is_checked = false;
    bool is_cached = true;
  };
  std::recursive_mutex mutex;
  std::map<DeviceKey, Known> devices;
};

std::shared_ptr<RknpuFile> RknpuFile::open(const std::string& node) {
  // A program that exits with a device open.
  struct RestAtExit {
    std::shared_ptr<Opened> opened;
    ~RestAtExit() {
      for (const auto& [key, known] : opened->devices) {
        if (std::get<pid_t>(key) != getpid()) continue;
        if (const auto file = known.file.lock()) file->cores.finish_rest();
      }
    }
  };
  static const RestAtExit at_exit{std::make_shared<Opened>()};
  const std::shared_ptr<Opened>& opened = at_exit.opened;
  const std::lock_guard<std::recursive_mutex> lock(opened->mutex);
  Opened::Known& known = opened->devices[device_key(node)];
  std::shared_ptr<RknpuFile> file = known.file.lock();
  if (file != nullptr) return file;
  file = std::shared_ptr<RknpuFile>(new RknpuFile(node, opened));  // NOLINT
  if (!known.is_checked) {
    known.is_cached = synchronises_all(file);
    known.is_checked = true;
  }
  file->is_cached_ = known.is_cached;
  known.file = file;
  return file;
}

RknpuFile::RknpuFile(const std::string& node, std::shared_ptr<Opened> opened)
    : opened_(std::move(opened)),
      file(node),
      version(file.version()),
      cores(rknpu_rest_ns(), [this]() { return is_powered(); }) {
  if (version.name != kRknpuDriver) {
    throw DeviceError(node + ": its driver is " + version.text() +
                      ", not rknpu; choose another node or device=auto");
  }
  if (!version.at_least(0, 8) || version.at_least(0, 10)) {
    throw DeviceError(node + ": driver " + version.text() +
                      " is not supported; supported are 0.8.0 to 0.9.x");
  }
  lock(file.descriptor());
  device_folder_ = ::open(device_folder(node).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (device_folder_ < 0) return;
  try {
    lock(device_folder_);
  } catch (...) {
    close(device_folder_);
    throw;
  }
}

RknpuFile::~RknpuFile() {
  // In a forked child another thread may have had the lock.
  if (file.is_mine()) {
    closing_ = std::unique_lock<std::recursive_mutex>(opened_->mutex);
    cores.finish_rest();
  }
  if (device_folder_ >= 0) close(device_folder_);
}

// Released by the kernel with the last descriptor, also when the process is killed.
void RknpuFile::lock(int descriptor) const {
  int result;
  do {
    result = flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno != EWOULDBLOCK) return;
  throw DeviceError(file.path() +
                    ": another process uses the NPU, and vendor kernels crash when two do; stop it "
                    "or share one process");
}

bool RknpuFile::is_powered() const {
  if (device_folder_ < 0) return false;
  const int status = openat(device_folder_, "power/runtime_status", O_RDONLY | O_CLOEXEC);
  if (status < 0) return false;
  char text[16]{};
  const ssize_t size = read(status, text, sizeof(text) - 1);
  ::close(status);
  // Others are "suspended", "unsupported", "error".
  const std::string_view word(text, size > 0 ? static_cast<size_t>(size) : 0);
  return word.substr(0, 6) == "active" || word.substr(0, 10) == "suspending" ||
         word.substr(0, 8) == "resuming";
}

uint32_t RknpuFile::memory_flags(bool is_table) const {
  if (is_cached_) return is_table ? rknpu::kTaskTableFlags : rknpu::kMemoryFlags;
  return is_table ? rknpu::kCombinedTaskTableFlags : rknpu::kCombinedMemoryFlags;
}

}  // namespace rk3588
