// The interface of the kernel driver `rocket` (mainline Linux from 6.18 on), /dev/accel/accelN.
#pragma once

#include "host/drm_uapi.h"

namespace rk3588::rocket {

struct CreateBo {
  uint32_t size = 0;
  uint32_t handle = 0;       // out
  uint64_t dma_address = 0;  // out: address on the device, private to the file
  uint64_t offset = 0;       // out: for mmap
};
static_assert(sizeof(CreateBo) == 24);
static_assert(offsetof(CreateBo, handle) == 4 && offsetof(CreateBo, dma_address) == 8 &&
              offsetof(CreateBo, offset) == 16);

// Waits until the device is done with the buffer, then makes its content visible to the host.
struct PrepBo {
  uint32_t handle = 0;
  uint32_t reserved = 0;
  int64_t timeout_ns = 0;  // absolute, CLOCK_MONOTONIC
};
static_assert(sizeof(PrepBo) == 16 && offsetof(PrepBo, timeout_ns) == 8);

// Makes what the host wrote visible to the device.
struct FiniBo {
  uint32_t handle = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(FiniBo) == 8);

struct Task {
  uint32_t regcmd = 0;        // device address
  uint32_t regcmd_count = 0;  // 64-bit words, the tail included
};
static_assert(sizeof(Task) == 8);

struct Job {
  uint64_t tasks = 0;
  uint64_t in_bo_handles = 0;
  uint64_t out_bo_handles = 0;
  uint32_t task_count = 0;
  uint32_t task_struct_size = 0;
  uint32_t in_bo_handle_count = 0;
  uint32_t out_bo_handle_count = 0;
  // Appended by drivers that report version 1.1 or above; older ones take the size without them.
  uint32_t flags = 0;
  uint32_t reserved = 0;
};
inline constexpr uint32_t kJobBytes = 40;
static_assert(offsetof(Job, in_bo_handles) == 8 && offsetof(Job, out_bo_handles) == 16);
static_assert(offsetof(Job, task_count) == 24 && offsetof(Job, task_struct_size) == 28);
static_assert(offsetof(Job, in_bo_handle_count) == 32 && offsetof(Job, out_bo_handle_count) == 36);
static_assert(offsetof(Job, flags) == kJobBytes && sizeof(Job) == 48);

// One kick for the whole chain of the job (version 1.1).
inline constexpr uint32_t kJobBatched = 1;
// The job ends with PPU tasks only and completes with their interrupt (version 1.3).
inline constexpr uint32_t kJobPpuDone = 4;

struct Submit {
  uint64_t jobs = 0;
  uint32_t job_count = 0;
  uint32_t job_struct_size = 0;
  uint64_t reserved = 0;
};
static_assert(sizeof(Submit) == 24 && offsetof(Submit, job_count) == 8 &&
              offsetof(Submit, job_struct_size) == 12 && offsetof(Submit, reserved) == 16);

inline constexpr uint32_t kCreateBo =
    drm::request(drm::kRead | drm::kWrite, drm::kCommandBase + 0, sizeof(CreateBo));
inline constexpr uint32_t kSubmit =
    drm::request(drm::kWrite, drm::kCommandBase + 1, sizeof(Submit));
inline constexpr uint32_t kPrepBo =
    drm::request(drm::kWrite, drm::kCommandBase + 2, sizeof(PrepBo));
inline constexpr uint32_t kFiniBo =
    drm::request(drm::kWrite, drm::kCommandBase + 3, sizeof(FiniBo));
static_assert(kCreateBo == 0xc0186440 && kSubmit == 0x40186441);
static_assert(kPrepBo == 0x40106442 && kFiniBo == 0x40086443);

// PC.TASK_CON counts the tasks of one kick in 12 bits.
inline constexpr size_t kMaxChainTasks = 4095;
// The kernel resets the core when a job has not finished after this time.
inline constexpr uint32_t kKernelJobTimeoutMs = 500;

}  // namespace rk3588::rocket
