#include "host/private_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace rk3588 {
namespace {

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

[[noreturn]] void refuse(const std::string& text) { throw std::runtime_error(text); }

[[noreturn]] void refuse_unknown(const std::string& path) {
  refuse(path + ": " + std::strerror(errno));
}

bool belongs_to_others(const struct stat& status) {
  return status.st_uid != getuid() && status.st_uid != 0;
}

}  // namespace

std::string private_folder(const std::string& folder) {
  char resolved[PATH_MAX];
  if (realpath(folder.c_str(), resolved) == nullptr) refuse_unknown(folder);
  for (std::filesystem::path path = resolved;; path = path.parent_path()) {
    const std::string place = path;
    struct stat status{};
    if (stat(place.c_str(), &status) != 0) refuse_unknown(place);
    if (belongs_to_others(status)) {
      refuse(place + " belongs to another user (number " + std::to_string(status.st_uid) + ")");
    }
    // In a sticky folder, as /tmp, only its owner can rename what is in it.
    const bool is_sticky = (status.st_mode & S_ISVTX) != 0 && place != resolved;
    if ((status.st_mode & kWritableByOthers) != 0 && !is_sticky) {
      std::ostringstream mode;
      mode << std::oct << (status.st_mode & 07777);
      refuse("others may write " + place + " (mode " + mode.str() + "); chmod go-w " + place +
             ", or choose another cache_dir");
    }
    if (path == path.root_path()) return resolved;
  }
}

void check_private_file(int descriptor, const std::string& path) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0) refuse_unknown(path);
  if (belongs_to_others(status) || (status.st_mode & kWritableByOthers) != 0) {
    refuse("others could have written " + path);
  }
}

void replace_file(const std::string& path, const std::string& text, mode_t mode, bool to_disk) {
  const std::string fresh = path + "." + std::to_string(getpid());
  unlink(fresh.c_str());  // of a killed process
  const int descriptor = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor < 0) refuse_unknown(path);
  errno = ENOSPC;  // unless a call says more
  const auto size = static_cast<ssize_t>(text.size());
  const bool is_whole = write(descriptor, text.data(), text.size()) == size &&
                        (!to_disk || fdatasync(descriptor) == 0) &&
                        rename(fresh.c_str(), path.c_str()) == 0;
  const int number = errno;
  close(descriptor);
  if (is_whole) return;
  unlink(fresh.c_str());
  errno = number;
  refuse_unknown(path);
}

}  // namespace rk3588
