#include "rocket/rocket_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <fstream>

#include "host/devices.h"
#include "rocket/keeper.h"

namespace rk3588 {
namespace {

constexpr char kBatchSwitch[] = "/sys/module/rocket/parameters/rocket_batch_submit";
constexpr int64_t kNsPerS = 1'000'000'000;
constexpr int64_t kPollNs = 200'000;
constexpr int64_t kLetGoPollNs = 1'000'000;
constexpr int64_t kLookNs = 50'000'000;
constexpr int64_t kUnknownNs = 100'000'000;  // where the driver cannot be asked
constexpr int64_t kPassedNs = 1;             // a deadline that has passed on every clock

bool batch_switch_is_on() {
  std::ifstream file(kBatchSwitch);
  char value = '0';
  file >> value;
  return file.good() && value != '0' && value != 'N';
}

void sleep_ns(int64_t duration) {
  struct timespec left{static_cast<time_t>(duration / kNsPerS),
                       static_cast<long>(duration % kNsPerS)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

void sleep_until(int64_t end_ns) {
  const int64_t left = end_ns - monotonic_ns();
  if (left > 0) sleep_ns(left);
}

// Never destroyed: the exit of the process closes them.
struct Files {
  std::timed_mutex mutex;
  std::vector<RocketFile*> files;
};

// Files whose jobs may run, kept open.
Files& kept() {
  static Files* instance = std::make_unique<Files>().release();
  return *instance;
}

// Counts over all files, for the exit of a process that does not destroy its models: the kernel
// closes their files all the same. Plain atomics outlive every user.
std::atomic<pid_t> g_user{0};
std::atomic<int> g_running_jobs{0};
std::atomic<int64_t> g_last_submit_ns{0};
std::atomic<int64_t> g_last_activity_ns{0};

// All that are open, for the same.
Files& open_files() {
  static Files* instance = std::make_unique<Files>().release();
  return *instance;
}

// Under the lock of the open files.
Keeper& keeper() {
  static Keeper* instance = std::make_unique<Keeper>().release();
  return *instance;
}

struct PauseAtExit {
  ~PauseAtExit() {
    if (g_user.load() != getpid()) return;
    if (g_running_jobs.load() > 0) sleep_until(g_last_submit_ns.load() + kRocketCloseWaitNs);
    sleep_until(g_last_activity_ns.load() + kRocketSettleNs);
    // The thread that holds the lock may be gone.
    const std::unique_lock<std::timed_mutex> lock(open_files().mutex,
                                                  std::chrono::nanoseconds(kRocketCloseWaitNs));
    if (!lock.owns_lock()) return;
    for (RocketFile* file : open_files().files) {
      if (file->file.is_mine()) file->wait_until_let_go();
    }
  }
} g_pause_at_exit;

}  // namespace

RocketFeatures rocket_features(const DrmFile& file) {
  RocketFeatures features;
  features.version = file.version();
  if (features.version.name != kRocketDriver) {
    throw DeviceError(file.path() + ": its driver is " + features.version.text() +
                      ", not rocket; choose another node or device=auto");
  }
  features.batched = features.version.at_least(1, 1) && batch_switch_is_on();
  features.ppu_done = features.version.at_least(1, 3);
  return features;
}

std::string take_keeper_problem() {
  const std::lock_guard<std::timed_mutex> lock(open_files().mutex);
  return keeper().take_problem();
}

RocketFile::RocketFile(const std::string& node, const Chip& chip)
    : file(node),
      features(rocket_features(file)),
      npu_lock_(chip.cbuf_is_shared ? NpuLock::of(file.descriptor()) : nullptr) {
  rocket::CreateBo create;
  create.size = kDevicePageBytes;
  file.request(rocket::kCreateBo, &create, "CREATE_BO of a page");
  mark_ = create.handle;
  mark_address_ = create.dma_address;
  rocket::FiniBo fini;
  fini.handle = mark_;
  try {
    file.request(rocket::kFiniBo, &fini, "FINI_BO");
  } catch (...) {
    close_mark();
    throw;
  }
  const std::lock_guard<std::timed_mutex> lock(open_files().mutex);
  keeper().keep(file.descriptor());
  open_files().files.push_back(this);
}

RocketFile::~RocketFile() {
  const std::lock_guard<std::timed_mutex> lock(open_files().mutex);
  std::vector<RocketFile*>& files = open_files().files;
  files.erase(std::remove(files.begin(), files.end(), this), files.end());
  keeper().let_go(file.descriptor());
}

std::shared_ptr<RocketFile> RocketFile::open(const std::string& node, const Chip& chip) {
  close_kept();
  return {new RocketFile(node, chip), &RocketFile::release};  // NOLINT
}

int RocketFile::wait(uint32_t handle, int64_t deadline_ns) const {
  rocket::PrepBo prep;
  prep.handle = handle;
  prep.timeout_ns = deadline_ns;
  for (;;) {
    const int number = file.try_request(rocket::kPrepBo, &prep, deadline_ns);
    if (number == 0) return 0;
    // EBUSY: the deadline had passed when the driver looked, and the job was not done.
    const bool is_not_done =
        number == EBUSY || number == ETIMEDOUT || number == EINTR || number == EAGAIN;
    if (!is_not_done) return number;
    if (monotonic_ns() >= deadline_ns) return ETIMEDOUT;
    sleep_ns(kPollNs);
  }
}

void RocketFile::lock_npu(uint32_t timeout_ms) {
  if (npu_lock_ == nullptr) return;
  const int64_t deadline = monotonic_ns() + timeout_ms * kNsPerMs;
  do {
    if (npu_lock_->lock_until(file.descriptor(), std::min(deadline, monotonic_ns() + kLookNs)))
      return;
    look_at_abandoned();
  } while (monotonic_ns() < deadline);
  throw DeviceError(
      "rocket " + file.path() + ": not free after " + std::to_string(timeout_ms) +
      " ms (option timeout_ms): the cores of this NPU share a buffer, so one job runs "
      "at a time, and another interpreter's or process's has not ended");
}

void RocketFile::note_submitted() const {
  const int64_t now = monotonic_ns();
  last_activity_ns_.store(now);
  // A forked child counts its own.
  if (g_user.exchange(getpid()) != getpid()) g_running_jobs.store(0);
  g_running_jobs.fetch_add(1);
  g_last_submit_ns.store(now);
  g_last_activity_ns.store(now);
}

void RocketFile::note_done() const {
  const int64_t now = monotonic_ns();
  last_activity_ns_.store(now);
  g_running_jobs.fetch_sub(1);
  g_last_activity_ns.store(now);
  if (npu_lock_ != nullptr) npu_lock_->unlock(file.descriptor());
}

void RocketFile::abandon(uint32_t handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  abandoned_.push_back(handle);
}

bool RocketFile::take_up(uint32_t handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find(abandoned_.begin(), abandoned_.end(), handle);
  if (found == abandoned_.end()) return false;
  abandoned_.erase(found);
  return true;
}

void RocketFile::look_at_abandoned() noexcept {
  const std::lock_guard<std::timed_mutex> lock(open_files().mutex);
  for (RocketFile* file : open_files().files) {
    if (!file->file.is_mine()) continue;
    const std::lock_guard<std::mutex> own(file->mutex_);
    file->may_run();
  }
}

// Also closes what waited for the abandoned jobs once they are done. The lock must be held.
bool RocketFile::may_run() noexcept {
  // A deadline that has passed: the driver answers at once. Any answer but "not done" means that
  // it has no job that could still end.
  const auto is_done = [this](uint32_t handle) {
    if (wait(handle, kPassedNs) == ETIMEDOUT) return false;
    note_done();
    return true;
  };
  abandoned_.erase(std::remove_if(abandoned_.begin(), abandoned_.end(), is_done), abandoned_.end());
  if (!abandoned_.empty()) return true;
  for (const uint32_t handle : unclosed_) close_now(handle);
  unclosed_.clear();
  return false;
}

void RocketFile::settle() const noexcept {
  const int64_t last = last_activity_ns_.load();
  if (last != INT64_MIN) sleep_until(last + kRocketSettleNs);
}

void RocketFile::close_mark() noexcept {
  if (mark_ != 0) file.close_handle(mark_);
  mark_ = 0;
}

bool RocketFile::wait_until_let_go() noexcept {
  close_mark();
  if (last_activity_ns_.load() == INT64_MIN) return true;
  // Other free pages are handed out, too, and kept until the mark's comes.
  std::array<uint32_t, kRocketCloseWaitNs / kLetGoPollNs + 1> pages{};
  size_t count = 0;
  bool has_let_go = false;
  while (!has_let_go && count < pages.size()) {
    if (count > 0) sleep_ns(kLetGoPollNs);
    rocket::CreateBo create;
    create.size = kDevicePageBytes;
    if (file.try_request(rocket::kCreateBo, &create) != 0) {  // no memory, or no device any more
      sleep_ns(kUnknownNs);
      has_let_go = true;
      break;
    }
    pages[count++] = create.handle;
    has_let_go = create.dma_address == mark_address_;
  }
  for (size_t i = 0; i < count; ++i) file.close_handle(pages[i]);
  return has_let_go;
}

void RocketFile::close_now(uint32_t handle) noexcept {
  settle();
  file.close_handle(handle);
}

// A forked child shares the open file: closing the handle there would take the memory from its
// parent.
void RocketFile::close_handle(uint32_t handle) noexcept {
  if (!file.is_mine()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  // The lowest free handle is the next buffer's: one that is closed is never asked about again.
  if (may_run()) {
    unclosed_.push_back(handle);
  } else {
    close_now(handle);
  }
}

void RocketFile::release(RocketFile* file) noexcept {
  std::unique_ptr<RocketFile> owned(file);
  // In a forked child only the descriptor goes, the file stays its parent's.
  if (!owned->file.is_mine()) return;
  {
    const std::lock_guard<std::mutex> lock(owned->mutex_);
    if (!owned->may_run()) {
      owned->settle();
      if (owned->wait_until_let_go()) return;
    }
  }
  const std::lock_guard<std::timed_mutex> lock(kept().mutex);
  kept().files.push_back(owned.release());
}

void RocketFile::close_kept() noexcept {
  std::vector<RocketFile*> files;
  {
    const std::lock_guard<std::timed_mutex> lock(kept().mutex);
    files.swap(kept().files);
  }
  // Files whose jobs still run come back.
  for (RocketFile* file : files) release(file);
}

}  // namespace rk3588
