#include "rocket/npu_lock.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "host/drm_file.h"

namespace rk3588 {
namespace {

// flock has no time limit of its own: how often it is asked.
constexpr int64_t kPollNs = 200'000;

}  // namespace

std::shared_ptr<NpuLock> NpuLock::of(int descriptor) {
  using Key = std::tuple<pid_t, dev_t, ino_t>;
  struct Known {
    std::mutex mutex;
    std::map<Key, std::weak_ptr<NpuLock>> locks;
  };
  // Never destroyed: files are closed at exit.
  static Known* known = std::make_unique<Known>().release();
  struct stat status{};
  fstat(descriptor, &status);
  const std::lock_guard<std::mutex> lock(known->mutex);
  std::weak_ptr<NpuLock>& place = known->locks[{getpid(), status.st_dev, status.st_ino}];
  std::shared_ptr<NpuLock> found = place.lock();
  if (found == nullptr) {
    found = std::make_shared<NpuLock>();
    place = found;
  }
  return found;
}

bool NpuLock::lock_until(int descriptor, int64_t deadline_ns) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!changed_.wait_until(lock, monotonic_time(deadline_ns), [this] { return !is_locked_; }))
    return false;
  is_locked_ = true;
  lock.unlock();
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int64_t now = monotonic_ns();
    if (now >= deadline_ns) {
      const std::lock_guard<std::mutex> again(mutex_);
      is_locked_ = false;
      changed_.notify_all();
      return false;
    }
    usleep(static_cast<useconds_t>(std::min(kPollNs, deadline_ns - now) / 1000 + 1));
  }
  return true;
}

void NpuLock::unlock(int descriptor) {
  static_cast<void>(flock(descriptor, LOCK_UN));
  const std::lock_guard<std::mutex> lock(mutex_);
  is_locked_ = false;
  changed_.notify_all();
}

}  // namespace rk3588
