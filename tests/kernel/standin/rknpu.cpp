// The requests of the vendor's driver rknpu.
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>

#include "rknpu/rknpu_uapi.h"
#include "standin.h"

namespace standin {
namespace {

namespace rknpu = rk3588::rknpu;
namespace drm = rk3588::drm;

constexpr uint64_t kPage = 4096;
constexpr size_t kCores = 3;
// What of a device's power and resets one process sees. Like the cores, for all nodes together.
struct Core {
  unsigned jobs = 0;  // in the driver
  bool is_busy = false;
  Clock::time_point start;
  Clock::time_point deadline;
};
Core g_cores[kCores];
uint64_t g_resets = 0;
Clock::time_point g_idle_since;
bool g_is_detached = false;  // the IOMMU, from a reset until the NPU was powered off
uint64_t g_submits_by_mask[8];
bool g_have_met = false;  // as many cores as `meet` asks for were busy at one time

bool is_before_0_9(const File& file) { return file.config.major == 0 && file.config.minor < 9; }

BoPtr find_object(File& file, uint64_t object) {
  for (const auto& [handle, bo] : file.bos) {
    if (bo->object == object) return bo;
  }
  return nullptr;
}

int mem_create(File& file, rknpu::MemCreate& create, bool is_old) {
  // A handle that exists gives the old buffer, whatever else is asked.
  if (const BoPtr old = find_bo(file, create.handle); old != nullptr) {
    if (!old->is_imported) violation("MEM_CREATE of a handle that exists");
    create.size = old->size;
    create.obj_addr = old->object;
    create.dma_addr = old->address;
    return 0;
  }
  if (create.size == 0) return EINVAL;
  if (create.size % kPage != 0) violation("MEM_CREATE of a size that is no whole pages");
  if (create.handle != 0 || create.obj_addr != 0 || create.dma_addr != 0 || create.sram_size != 0) {
    violation("MEM_CREATE with fields that the driver fills");
  }
  if (create.flags != rknpu::kMemoryFlags && create.flags != rknpu::kTaskTableFlags &&
      create.flags != rknpu::kCombinedMemoryFlags &&
      create.flags != rknpu::kCombinedTaskTableFlags) {
    violation("MEM_CREATE with flags that the vendor's runtime does not use");
  }
  const bool knows_new = !is_before_0_9(file);
  if (is_old == knows_new) violation("MEM_CREATE of the other driver generation");
  if (!is_old && (create.iommu_domain_id != 0 || create.core_mask != 0)) {
    violation("MEM_CREATE in another IOMMU domain");
  }
  const uint64_t size = (create.size + kPage - 1) / kPage * kPage;
  const uint64_t address =
      allocate_down(bos_of_node(file.path), size, file.config.address_space_bytes);
  if (address == UINT64_MAX) return EFAULT;
  const BoPtr bo = make_bo(file, size);
  if (bo == nullptr) return ENOMEM;
  if ((create.flags & rknpu::kCacheable) == 0) bo->device = {bo->host, bo->size};
  bo->address = address;
  bo->flags = create.flags;
  bo->object = 0xffffff8100000000 + uint64_t{bo->handle} * 0x1000;
  file.bos[bo->handle] = bo;
  create.handle = bo->handle;
  create.size = bo->size;
  create.obj_addr = bo->object;
  create.dma_addr = bo->address;
  return 0;
}

// One handle for all descriptors of the same memory, as the kernel gives them. A memfd stands for a
// dma-buf.
int import_descriptor(File& file, drm::PrimeHandle& prime) {
  struct stat wanted{};
  if (prime.flags != 0) violation("PRIME_FD_TO_HANDLE with flags");
  if (fstat(prime.descriptor, &wanted) != 0) return EBADF;
  for (const auto& [handle, bo] : file.bos) {
    struct stat known{};
    if (!bo->is_imported || fstat(bo->memory_fd, &known) != 0) continue;
    if (known.st_dev != wanted.st_dev || known.st_ino != wanted.st_ino) continue;
    prime.handle = handle;
    return 0;
  }
  const auto size = static_cast<uint64_t>(wanted.st_size);
  const uint64_t pages = (size + kPage - 1) / kPage * kPage;
  const uint64_t address =
      allocate_down(bos_of_node(file.path), pages, file.config.address_space_bytes);
  if (address == UINT64_MAX) return ENOMEM;
  const BoPtr bo = make_bo_of(file, dup(prime.descriptor), size);
  if (bo == nullptr) return ENOMEM;
  bo->device = {bo->host, bo->size};
  bo->address = address;
  bo->is_imported = true;
  bo->object = 0xffffff8200000000 + uint64_t{bo->handle} * 0x1000;
  file.bos[bo->handle] = bo;
  prime.handle = bo->handle;
  return 0;
}

int close_handle(File& file, const drm::GemClose& close) {
  const BoPtr bo = find_bo(file, close.handle);
  if (bo == nullptr || !bo->is_imported) {
    violation("GEM_CLOSE of a buffer that was not imported");
    return EINVAL;
  }
  if (bo->running_jobs != 0) violation("GEM_CLOSE while the device runs");
  file.bos.erase(close.handle);
  return 0;
}

int mem_map(File& file, rknpu::MemMap& map) {
  const BoPtr bo = find_bo(file, map.handle);
  if (bo == nullptr) return ENOENT;
  if (map.reserved != 0) violation("MEM_MAP with reserved fields set");
  map.offset = bo->offset;
  return 0;
}

int mem_destroy(File& file, const rknpu::MemDestroy& destroy) {
  const BoPtr bo = find_bo(file, destroy.handle);
  if (bo == nullptr || bo->object != destroy.obj_addr || destroy.reserved != 0) {
    violation("MEM_DESTROY of a buffer that does not exist");
    return EINVAL;
  }
  file.bos.erase(destroy.handle);
  return 0;
}

// The driver follows the object's address without a look: NULL is refused, anything else that is no
// buffer would crash it.
int mem_sync(File& file, const rknpu::MemSync& sync) {
  const BoPtr bo = find_object(file, sync.obj_addr);
  if (bo == nullptr) {
    if (sync.obj_addr != 0) violation("MEM_SYNC of no buffer (crashes the kernel)");
    return EINVAL;
  }
  if ((bo->flags & rknpu::kCacheable) == 0) {
    violation("MEM_SYNC of a buffer without a cache");
    return EINVAL;
  }
  // What follows is stricter than the driver, which does what it can and says 0.
  if (sync.reserved != 0 || sync.size == 0 || sync.offset > bo->size ||
      sync.size > bo->size - sync.offset) {
    violation("MEM_SYNC outside its buffer");
    return 0;
  }
  if (bo->running_jobs != 0) violation("MEM_SYNC while the device runs");
  const bool to_device = (sync.flags & rknpu::kSyncToDevice) != 0;
  const bool from_device = (sync.flags & rknpu::kSyncFromDevice) != 0;
  if (to_device == from_device) violation("MEM_SYNC in no direction, or both");
  if (sync.offset >= file.config.sync_bytes) return 0;
  const uint64_t size = std::min(sync.size, file.config.sync_bytes - sync.offset);
  uint8_t* device = bo->device.data() + sync.offset;
  uint8_t* host = bo->host + sync.offset;
  if (to_device) std::memcpy(device, host, size);
  if (from_device) std::memcpy(host, device, size);
  return 0;
}

int check_submit(const File& file, const rknpu::Submit& s, const Bo& table) {
  const auto complain = [](const char* text) {
    violation(std::string("SUBMIT: ") + text);
    return EINVAL;
  };
  if (s.flags != (rknpu::kJobPc | rknpu::kJobPingPong))
    return complain("flags are not PC and PINGPONG");
  if (s.timeout == 0) return complain("no timeout");
  if (s.task_number == 0) return complain("no tasks");
  if (s.task_number > rknpu::kMaxChainTasks) return complain("more than 4095 tasks in one kick");
  if ((table.flags & rknpu::kKernelMapping) == 0)
    return complain("the driver cannot read the table");
  if (uint64_t{s.task_start} + s.task_number > table.size / sizeof(rknpu::Task)) {
    return complain("tasks outside the table");
  }
  if (s.task_base_addr != 0) return complain("a task base address (stalls the core)");
  if (s.iommu_domain_id != 0 || s.reserved != 0) return complain("another IOMMU domain");
  // Not a mistake of the program, which cannot know the part.
  if (s.core_mask > (1u << file.config.cores) - 1) return EINVAL;
  if (s.core_mask == 0) violation("SUBMIT: the driver chooses the core (jobs may queue there)");
  if (s.core_mask != 0 && s.core_mask != 1 && s.core_mask != 2 && s.core_mask != 4) {
    return complain("several cores (a plan made by hand panics the kernel)");
  }
  for (size_t i = 0; i < rknpu::kSubcoreSlots; ++i) {
    const rknpu::SubcoreTask& slot = s.subcore_task[i];
    const bool is_used = i < kCores && (s.core_mask == 0 || (s.core_mask >> i & 1) != 0);
    const bool is_right = is_used
                              ? slot.task_start == s.task_start && slot.task_number == s.task_number
                              : slot.task_start == 0 && slot.task_number == 0;
    if (!is_right) return complain("a core's task range is not the submit's");
  }
  return 0;
}

int read_tasks(File& file, const rknpu::Submit& s, const Bo& table, Job* job) {
  job->memory = bos_of_node(file.path);
  for (uint32_t i = 0; i < s.task_number; ++i) {
    rknpu::Task task;
    // The driver reads through its own mapping, which sees what the host wrote.
    std::memcpy(&task, table.host + (size_t{s.task_start} + i) * sizeof(task), sizeof(task));
    const TaskRecord record{task.regcmd_addr, task.regcfg_amount + rknpu::kTailWords};
    const uint32_t mask = enable_mask(job->memory, record);
    const uint32_t interrupt = (mask & 0x08) != 0 ? rknpu::kIntDpu : rknpu::kIntPpu;
    if (mask == 0 || task.enable_mask != mask) violation("a task record with another enable mask");
    if (task.int_mask != interrupt || task.int_clear != rknpu::kIntClearAll) {
      violation("a task record with the wrong interrupts");
    }
    if (task.flags != 0 || task.int_status != 0 || task.regcfg_offset != 0) {
      violation("a task record with unknown fields set");
    }
    job->tasks.push_back(record);
  }
  return 0;
}

// What crashes the driver when a job passes its time-out while this one comes.
void check_queues(const File& file, const Core& core) {
  if (core.jobs > 0) violation("SUBMIT: a core has a job already (a reset frees it while queued)");
  for (const Core& other : g_cores) {
    if (other.is_busy && Clock::now() > other.deadline) {
      violation("SUBMIT: a job is past its time-out (its reset frees this one while queued)");
    }
  }
  if (is_before_0_9(file)) {
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    if (sigismember(&blocked, SIGINT) == 0) {
      violation("SUBMIT: a signal would abort the job without a reset");
    }
  }
}

// The IOMMU is attached again by the next power-up, which takes a rest without jobs.
bool is_detached(const File& file) {
  if (!g_is_detached) return false;
  if (Clock::now() - g_idle_since >= std::chrono::milliseconds(file.config.rest_ms)) {
    g_is_detached = false;
    return false;
  }
  violation("SUBMIT: the IOMMU may not be attached so soon after a reset");
  return true;
}

// Holds the first jobs until `meet` cores are busy: how many run side by side does not depend on
// how the host schedules its threads.
void meet(const File& file, std::unique_lock<std::mutex>& lock) {
  constexpr auto kLongestWait = std::chrono::seconds(60);
  const auto is_met = [&] {
    const auto busy = std::count_if(std::begin(g_cores), std::end(g_cores),
                                    [](const Core& core) { return core.is_busy; });
    return g_have_met || busy >= static_cast<long>(file.config.meet);
  };
  if (is_met()) kernel().changed.notify_all();
  if (!kernel().changed.wait_for(lock, kLongestWait, is_met)) {
    violation("SUBMIT: jobs that could run side by side come one by one");
  }
  g_have_met = true;
}

int submit(File& file, rknpu::Submit& s, const Action& action, std::unique_lock<std::mutex>& lock) {
  const BoPtr table = find_object(file, s.task_obj_addr);
  if (table == nullptr) {
    violation("SUBMIT: no task table");
    return EINVAL;
  }
  if (const int error = check_submit(file, s, *table); error != 0) return error;
  ++g_submits_by_mask[s.core_mask & 7];
  Job job;
  read_tasks(file, s, *table, &job);
  job.chained = true;
  job.chip = file.config.chip;
  job.cores_clash = file.config.cores_clash;
  job.fate = action.fate;
  job.hang_at = action.hang_at;
  const size_t last_mask = enable_mask(job.memory, job.tasks.back());
  job.ppu_done = (last_mask & 0x08) == 0;  // this driver waits for what the last task says
  size_t index = 0;
  while (index + 1 < kCores && s.core_mask != 0 && (s.core_mask >> index & 1) == 0) ++index;
  Core& core = g_cores[index];
  check_queues(file, core);
  if (is_detached(file)) return EINVAL;
  ++core.jobs;
  kernel().changed.wait(lock, [&] { return !core.is_busy; });
  const uint64_t resets = g_resets;
  core.is_busy = true;
  core.start = Clock::now();
  core.deadline = core.start + std::chrono::milliseconds(s.timeout);
  meet(file, lock);
  lock.unlock();
  bool done = true;
  if (job.fate != Fate::kLost)
    done = execute(job, std::min(file.config.hang_ms, s.timeout), static_cast<int>(index));
  if (job.fate == Fate::kLong) usleep(static_cast<useconds_t>(job.hang_at * 1000));
  lock.lock();
  // The reset for another job ends this one, however far it came.
  const bool is_reset = g_resets != resets;
  if (!done && !is_reset) {
    ++g_resets;
    g_is_detached = true;
    lock.unlock();
    usleep(file.config.reset_ms * 1000);
    lock.lock();
  }
  const auto elapsed = Clock::now() - core.start;
  s.hw_elapse_time = std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
  core.is_busy = false;
  --core.jobs;
  g_idle_since = Clock::now();
  kernel().changed.notify_all();
  if (is_reset) return EINVAL;
  s.task_counter = done ? s.task_number : static_cast<uint32_t>(job.hang_at);
  return done ? 0 : ETIMEDOUT;
}

constexpr uint32_t kHardwareVersion = 0;
constexpr uint32_t kGetVoltage = 4;
constexpr uint32_t kTotalSram = 22;
constexpr uint32_t kFreeSram = 23;
constexpr uint32_t kGetIommuDomain = 24;

int act(rknpu::Action& action, const File& file) {
  switch (action.request) {
    case rknpu::kGetDriverVersion:
      action.value = static_cast<uint32_t>(file.config.major * 10000 + file.config.minor * 100 +
                                           file.config.patch);
      return 0;
    case rknpu::kGetFrequency:
      action.value = 1'000'000'000;
      return 0;
    case rknpu::kGetIommuEnabled:
      action.value = 1;
      return 0;
    case kHardwareVersion:
    case kTotalSram:
    case kFreeSram:
    case kGetIommuDomain:
      action.value = 0;
      return 0;
    case kGetVoltage:
      violation("ACTION 4 (the voltage crashes a kernel whose NPU has no supply)");
      return 0;
    default:
      return EINVAL;
  }
}

}  // namespace

int rknpu_request(const FilePtr& file, uint32_t code, void* argument,
                  std::unique_lock<std::mutex>& lock) {
  const char* name = code == drm::kGetVersion                                    ? "VERSION"
                     : code == rknpu::kAction                                    ? "ACTION"
                     : code == rknpu::kSubmit                                    ? "SUBMIT"
                     : code == rknpu::kMemCreate || code == rknpu::kOldMemCreate ? "MEM_CREATE"
                     : code == rknpu::kMemMap                                    ? "MEM_MAP"
                     : code == rknpu::kMemDestroy                                ? "MEM_DESTROY"
                     : code == rknpu::kMemSync                                   ? "MEM_SYNC"
                     : code == drm::kDescriptorToHandle ? "PRIME_FD_TO_HANDLE"
                     : code == drm::kCloseHandle        ? "GEM_CLOSE"
                                                        : nullptr;
  if (name == nullptr) {
    violation("an unknown request");
    constexpr uint32_t kDrmType = 'd';
    return (code >> 8 & 0xff) == kDrmType ? EINVAL : ENOTTY;
  }
  if (argument == nullptr) return EFAULT;
  const Action action = next_action(name, lock);
  if (action.error != 0 && !(code == rknpu::kMemDestroy && kernel().gone)) return action.error;
  switch (code) {
    case drm::kGetVersion:
      return version_request(*file, argument);
    case rknpu::kAction:
      return act(*static_cast<rknpu::Action*>(argument), *file);
    case rknpu::kSubmit:
      return submit(*file, *static_cast<rknpu::Submit*>(argument), action, lock);
    case drm::kDescriptorToHandle:
      return import_descriptor(*file, *static_cast<drm::PrimeHandle*>(argument));
    case drm::kCloseHandle:
      return close_handle(*file, *static_cast<drm::GemClose*>(argument));
    case rknpu::kMemMap:
      return mem_map(*file, *static_cast<rknpu::MemMap*>(argument));
    case rknpu::kMemDestroy:
      return mem_destroy(*file, *static_cast<rknpu::MemDestroy*>(argument));
    case rknpu::kMemSync:
      return mem_sync(*file, *static_cast<rknpu::MemSync*>(argument));
    default:
      return mem_create(*file, *static_cast<rknpu::MemCreate*>(argument),
                        code == rknpu::kOldMemCreate);
  }
}

// The driver's node of DMA-heap kernels looks at the number of a request alone: what a DRM node
// takes for VERSION it takes for ACTION 0 and says 0.
int rknpu_misc_request(uint32_t code, void* argument) {
  violation("a request to the vendor driver's node without DRM");
  constexpr uint32_t kNumbers = 0x3f;
  if (argument == nullptr) return EFAULT;
  return (code & kNumbers) == 0 ? 0 : EINVAL;
}

}  // namespace standin

// Submits with a core mask so far.
extern "C" __attribute__((visibility("default"))) uint64_t standin_submits_by_mask(uint32_t mask) {
  const std::lock_guard<std::mutex> lock(standin::kernel().mutex);
  return standin::g_submits_by_mask[mask & 7];
}
