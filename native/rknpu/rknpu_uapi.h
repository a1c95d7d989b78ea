// The interface of the vendor's kernel driver `rknpu` (versions 0.8 to 0.9.8), /dev/dri/*.
#pragma once

#include "host/drm_uapi.h"

namespace rk3588::rknpu {

struct Action {
  uint32_t request = 0;
  uint32_t value = 0;  // in or out
};
static_assert(sizeof(Action) == 8);

inline constexpr uint32_t kGetHardwareVersion = 0;
inline constexpr uint32_t kGetDriverVersion = 1;
inline constexpr uint32_t kGetFrequency = 2;
inline constexpr uint32_t kGetIommuEnabled = 18;

struct MemCreate {
  uint32_t handle = 0;  // out
  uint32_t flags = 0;
  uint64_t size = 0;
  uint64_t obj_addr = 0;  // out: the kernel's name of the buffer
  uint64_t dma_addr = 0;  // out: address on the device
  uint64_t sram_size = 0;
  // Not in drivers before 0.9.
  int32_t iommu_domain_id = 0;
  uint32_t core_mask = 0;
};
inline constexpr size_t kOldMemCreateBytes = 40;
static_assert(sizeof(MemCreate) == 48 && offsetof(MemCreate, size) == 8 &&
              offsetof(MemCreate, obj_addr) == 16 && offsetof(MemCreate, dma_addr) == 24 &&
              offsetof(MemCreate, sram_size) == 32 &&
              offsetof(MemCreate, iommu_domain_id) == kOldMemCreateBytes);

inline constexpr uint32_t kNonContiguous = 0x1;
inline constexpr uint32_t kCacheable = 0x2;
inline constexpr uint32_t kWriteCombine = 0x4;
inline constexpr uint32_t kKernelMapping = 0x8;
inline constexpr uint32_t kIovaAlignment = 0x400;
// The flags that the vendor's runtime asks for.
inline constexpr uint32_t kMemoryFlags = kNonContiguous | kCacheable | kIovaAlignment;
// The driver itself reads the task table, so it needs it mapped.
inline constexpr uint32_t kTaskTableFlags = kMemoryFlags | kKernelMapping;
static_assert(kMemoryFlags == 0x403 && kTaskTableFlags == 0x40b);
// The same without the host's cache: nothing to synchronise.
inline constexpr uint32_t kCombinedMemoryFlags = kNonContiguous | kWriteCombine | kIovaAlignment;
inline constexpr uint32_t kCombinedTaskTableFlags = kCombinedMemoryFlags | kKernelMapping;
static_assert(kCombinedMemoryFlags == 0x405 && kCombinedTaskTableFlags == 0x40d);

struct MemMap {
  uint32_t handle = 0;
  uint32_t reserved = 0;
  uint64_t offset = 0;  // out: for mmap
};
static_assert(sizeof(MemMap) == 16 && offsetof(MemMap, offset) == 8);

struct MemDestroy {
  uint32_t handle = 0;
  uint32_t reserved = 0;
  uint64_t obj_addr = 0;
};
static_assert(sizeof(MemDestroy) == 16 && offsetof(MemDestroy, obj_addr) == 8);

struct MemSync {
  uint32_t flags = 0;
  uint32_t reserved = 0;
  uint64_t obj_addr = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};
static_assert(sizeof(MemSync) == 32 && offsetof(MemSync, obj_addr) == 8 &&
              offsetof(MemSync, offset) == 16 && offsetof(MemSync, size) == 24);
inline constexpr uint32_t kSyncToDevice = 1;
inline constexpr uint32_t kSyncFromDevice = 2;

#pragma pack(push, 1)
struct Task {
  uint32_t flags = 0;
  uint32_t op_idx = 0;
  uint32_t enable_mask = 0;  // what the segment's last word starts
  uint32_t int_mask = 0;
  uint32_t int_clear = 0;
  uint32_t int_status = 0;
  uint32_t regcfg_amount = 0;  // words without the tail; the driver adds the tail
  uint32_t regcfg_offset = 0;
  uint64_t regcmd_addr = 0;
};
#pragma pack(pop)
static_assert(sizeof(Task) == 40 && offsetof(Task, regcfg_amount) == 24 &&
              offsetof(Task, regcmd_addr) == 32);
inline constexpr uint32_t kIntDpu = 0x300;
inline constexpr uint32_t kIntPpu = 0xc00;
inline constexpr uint32_t kIntClearAll = 0x1ffff;
inline constexpr uint32_t kTailWords = 4;

struct SubcoreTask {
  uint32_t task_start = 0;
  uint32_t task_number = 0;
};

inline constexpr size_t kSubcoreSlots = 5;

struct Submit {
  uint32_t flags = 0;
  uint32_t timeout = 0;  // ms
  uint32_t task_start = 0;
  uint32_t task_number = 0;
  uint32_t task_counter = 0;  // out: tasks that the device had finished
  int32_t priority = 0;
  uint64_t task_obj_addr = 0;
  uint32_t iommu_domain_id = 0;  // 0.9.6 has one 64-bit field here; 0 means the same in both
  uint32_t reserved = 0;
  uint64_t task_base_addr = 0;
  int64_t hw_elapse_time = 0;  // out: ns from the kick to the interrupt
  uint32_t core_mask = 0;
  int32_t fence_fd = 0;
  SubcoreTask subcore_task[kSubcoreSlots];
};
static_assert(sizeof(Submit) == 104 && offsetof(Submit, task_obj_addr) == 24 &&
              offsetof(Submit, iommu_domain_id) == 32 && offsetof(Submit, task_base_addr) == 40 &&
              offsetof(Submit, hw_elapse_time) == 48 && offsetof(Submit, core_mask) == 56 &&
              offsetof(Submit, fence_fd) == 60 && offsetof(Submit, subcore_task) == 64);
inline constexpr uint32_t kJobPc = 0x1;
inline constexpr uint32_t kJobPingPong = 0x4;

// PC.TASK_CON counts the tasks of one kick in 12 bits.
inline constexpr uint32_t kMaxChainTasks = 4095;

inline constexpr uint32_t kReadWrite = drm::kRead | drm::kWrite;
inline constexpr uint32_t kAction = drm::request(kReadWrite, drm::kCommandBase + 0, sizeof(Action));
inline constexpr uint32_t kSubmit = drm::request(kReadWrite, drm::kCommandBase + 1, sizeof(Submit));
inline constexpr uint32_t kMemCreate =
    drm::request(kReadWrite, drm::kCommandBase + 2, sizeof(MemCreate));
inline constexpr uint32_t kOldMemCreate =
    drm::request(kReadWrite, drm::kCommandBase + 2, kOldMemCreateBytes);
inline constexpr uint32_t kMemMap = drm::request(kReadWrite, drm::kCommandBase + 3, sizeof(MemMap));
inline constexpr uint32_t kMemDestroy =
    drm::request(kReadWrite, drm::kCommandBase + 4, sizeof(MemDestroy));
inline constexpr uint32_t kMemSync =
    drm::request(kReadWrite, drm::kCommandBase + 5, sizeof(MemSync));
static_assert(kAction == 0xc0086440 && kSubmit == 0xc0686441 && kMemCreate == 0xc0306442);
static_assert(kMemMap == 0xc0106443 && kMemDestroy == 0xc0106444 && kMemSync == 0xc0206445);

}  // namespace rk3588::rknpu
