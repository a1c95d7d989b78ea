// An open file of the mainline driver, and when it may be closed.
//
// PREP_BO returns when a job's fence is signalled; the driver drops the job's references to its
// buffers later, in a work item, and closing the file frees what that work item needs. Closing it
// while a job runs frees what the core is using. Both crash kernels. So files outlive the jobs that
// name their buffers: until the driver is seen to have dropped its references, and until it has
// reset the core for a job that is not done.
//
// How that is seen: the first buffer of a file, its mark, has the lowest address and is the last
// one that every job lists, and the driver drops references in the order of the lists. An address
// is taken until the last reference is dropped. So once the mark's handle is closed, a new buffer
// gets the mark's address when all jobs have let go of all their buffers, and not before.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "chip/chip_gen.h"
#include "host/drm_file.h"
#include "rocket/npu_lock.h"
#include "rocket/rocket_uapi.h"

namespace rk3588 {

// The abilities of one node's driver.
struct RocketFeatures {
  DriverVersion version;
  // One kick per chain: version 1.1 and the module's switch.
  bool batched = false;
  // Jobs may end with PPU tasks: version 1.3.
  bool ppu_done = false;
};

// Asks the driver behind `file`. Throws DeviceError if it is not rocket.
RocketFeatures rocket_features(const DrmFile& file);

// The pause between the end of the last wait and closing a handle or the file. 5 to 10 of 200 files
// closed at once left the kernel's memory manager in disorder, none of 200 closed after 1 ms (Linux
// 7.2 on emulated cores). On a loaded machine the kernel's workers come later than after any pause:
// this is for what is left to do behind the last reference.
inline constexpr int64_t kRocketSettleNs = 10'000'000;

// The kernel resets a core whose job takes longer than its limit; others' jobs may come first. What
// is not done after twice that keeps its file open.
inline constexpr int64_t kRocketCloseWaitNs = 2 * int64_t{rocket::kKernelJobTimeoutMs} * kNsPerMs;

// Shared by its device, buffers and submissions; closed after the last of them. Thread-safe.
class RocketFile {
 public:
  // Opens the node, behind which is an NPU of the chip. A second process keeps it
  // open for a second after this one's death (see Keeper). Also closes files that were kept for
  // jobs that have ended since. Throws DeviceError.
  static std::shared_ptr<RocketFile> open(const std::string& node, const Chip& chip);
  ~RocketFile();
  RocketFile(const RocketFile&) = delete;
  RocketFile& operator=(const RocketFile&) = delete;

  DrmFile file;
  RocketFeatures features;

  // Waits for the buffer's jobs until `deadline_ns` (monotonic), then makes it the host's. Returns
  // 0, ETIMEDOUT where the jobs are not done, or another errno.
  int wait(uint32_t handle, int64_t deadline_ns) const;

  // Called before a job is handed over. Where only one job may run at a time, waits for the others.
  // Throws DeviceError.
  void lock_npu(uint32_t timeout_ms);
  // A job was handed over, and was seen to be done: as many times.
  void note_submitted() const;
  void note_done() const;
  // A job that nobody waits for any longer may still write the buffer of this handle. Whoever sees
  // that it is done notes it.
  void abandon(uint32_t handle);
  // Somebody waits for it again. False: it was seen to be done.
  bool take_up(uint32_t handle);
  // Closes a buffer's handle, or has it closed with the file if an abandoned job may use it.
  void close_handle(uint32_t handle) noexcept;
  // The handle that every job lists as its last output.
  uint32_t mark() const { return mark_; }
  // Waits until no job holds a buffer, as far as the driver can be asked; no job may be submitted
  // any more. False: some still does.
  bool wait_until_let_go() noexcept;

 private:
  RocketFile(const std::string& node, const Chip& chip);
  // Called by shared_ptr: closes the file or keeps it.
  static void release(RocketFile* file) noexcept;
  static void close_kept() noexcept;
  // Looks at all files of the process.
  static void look_at_abandoned() noexcept;

  bool may_run() noexcept;
  void settle() const noexcept;
  void close_now(uint32_t handle) noexcept;
  void close_mark() noexcept;

  std::shared_ptr<NpuLock> npu_lock_;  // nullptr: any number of jobs may run
  uint32_t mark_ = 0;
  uint64_t mark_address_ = 0;
  mutable std::atomic<int64_t> last_activity_ns_{INT64_MIN};
  std::mutex mutex_;
  std::vector<uint32_t> abandoned_;  // handles of buffers that abandoned jobs write
  std::vector<uint32_t> unclosed_;   // handles whose buffers are gone
};

}  // namespace rk3588
