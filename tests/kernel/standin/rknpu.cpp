// The requests of the vendor's driver rknpu.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "rknpu_uapi.h"
#include "standin.h"

namespace standin {
namespace {

namespace rknpu = rk3588::rknpu;
namespace drm = rk3588::drm;

constexpr uint64_t kPage = 4096;
constexpr size_t kCores = 3;
bool g_core_busy[kCores];
uint64_t g_submits_by_mask[8];

BoPtr find_object(File& file, uint64_t object) {
  for (const auto& [handle, bo] : file.bos) {
    if (bo->object == object) return bo;
  }
  return nullptr;
}

int mem_create(File& file, rknpu::MemCreate& create, bool is_old) {
  if (create.size == 0) return EINVAL;
  if (create.size % kPage != 0) violation("MEM_CREATE of a size that is no whole pages");
  if (create.handle != 0 || create.obj_addr != 0 || create.dma_addr != 0 || create.sram_size != 0) {
    violation("MEM_CREATE with fields that the driver fills");
  }
  if (create.flags != rknpu::kMemoryFlags && create.flags != rknpu::kTaskTableFlags) {
    violation("MEM_CREATE with flags that the vendor's runtime does not use");
  }
  const bool knows_new = file.config.major > 0 || file.config.minor >= 9;
  if (is_old == knows_new) violation("MEM_CREATE of the other driver generation");
  if (!is_old && (create.iommu_domain_id != 0 || create.core_mask != 0)) {
    violation("MEM_CREATE in another IOMMU domain");
  }
  const uint64_t size = (create.size + kPage - 1) / kPage * kPage;
  const uint64_t address =
      allocate_down(bos_of_node(file.path), size, file.config.address_space_bytes);
  if (address == UINT64_MAX) return ENOMEM;
  const BoPtr bo = make_bo(file, size);
  if (bo == nullptr) return ENOMEM;
  bo->address = address;
  bo->flags = create.flags;
  bo->object = 0xffffff8100000000 + uint64_t{bo->handle} * 0x1000;
  file.bos[bo->handle] = bo;
  create.handle = bo->handle;
  create.obj_addr = bo->object;
  create.dma_addr = bo->address;
  return 0;
}

int mem_map(File& file, rknpu::MemMap& map) {
  const BoPtr bo = find_bo(file, map.handle);
  if (bo == nullptr || map.reserved != 0) return EINVAL;
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

int mem_sync(File& file, const rknpu::MemSync& sync) {
  const BoPtr bo = find_object(file, sync.obj_addr);
  if (bo == nullptr) return EINVAL;
  if (sync.reserved != 0 || sync.size == 0 || sync.offset > bo->size ||
      sync.size > bo->size - sync.offset) {
    violation("MEM_SYNC outside its buffer");
    return EINVAL;
  }
  if (bo->running_jobs != 0) violation("MEM_SYNC while the device runs");
  switch (sync.flags) {
    case rknpu::kSyncToDevice:
      std::memcpy(bo->device.data() + sync.offset, bo->host + sync.offset, sync.size);
      return 0;
    case rknpu::kSyncFromDevice:
      std::memcpy(bo->host + sync.offset, bo->device.data() + sync.offset, sync.size);
      return 0;
    default:
      violation("MEM_SYNC in no direction, or both");
      return EINVAL;
  }
}

int check_submit(const rknpu::Submit& s, const Bo& table) {
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

int submit(File& file, rknpu::Submit& s, const Action& action, std::unique_lock<std::mutex>& lock) {
  const BoPtr table = find_object(file, s.task_obj_addr);
  if (table == nullptr) {
    violation("SUBMIT: no task table");
    return EINVAL;
  }
  if (const int error = check_submit(s, *table); error != 0) return error;
  ++g_submits_by_mask[s.core_mask & 7];
  Job job;
  read_tasks(file, s, *table, &job);
  job.chained = true;
  job.fate = action.fate;
  job.hang_at = action.hang_at;
  const size_t last_mask = enable_mask(job.memory, job.tasks.back());
  job.ppu_done = (last_mask & 0x08) == 0;  // this driver waits for what the last task says
  size_t core = 0;
  const auto is_free = [&] {
    for (core = 0; core < kCores; ++core) {
      const bool allowed = s.core_mask == 0 || (s.core_mask >> core & 1) != 0;
      if (allowed && !g_core_busy[core]) return true;
    }
    return false;
  };
  kernel().changed.wait(lock, is_free);
  g_core_busy[core] = true;
  lock.unlock();
  bool done = true;
  const auto start = std::chrono::steady_clock::now();
  if (job.fate != Fate::kLost) done = execute(job, std::min(file.config.hang_ms, s.timeout));
  s.hw_elapse_time = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  lock.lock();
  g_core_busy[core] = false;
  kernel().changed.notify_all();
  s.task_counter = done ? s.task_number : static_cast<uint32_t>(job.hang_at);
  return done ? 0 : ETIMEDOUT;
}

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
                                                                                 : nullptr;
  if (name == nullptr) {
    violation("an unknown request");
    return EINVAL;
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

}  // namespace standin

// Submits with a core mask so far.
extern "C" __attribute__((visibility("default"))) uint64_t standin_submits_by_mask(uint32_t mask) {
  const std::lock_guard<std::mutex> lock(standin::kernel().mutex);
  return standin::g_submits_by_mask[mask & 7];
}
