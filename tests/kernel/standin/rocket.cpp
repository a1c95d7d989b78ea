// The requests of the driver rocket.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>

#include "rocket/rocket_uapi.h"
#include "standin.h"

namespace standin {
namespace {

namespace rocket = rk3588::rocket;
namespace drm = rk3588::drm;

constexpr uint64_t kPage = 4096;
// The driver keeps how many bytes it mapped in an int, which is negative from here on: an error.
constexpr uint64_t kTooLarge = uint64_t{1} << 31;

int create_bo(File& file, rocket::CreateBo& create) {
  if (create.size == 0) return ENOSPC;
  if (create.size % kPage != 0) violation("CREATE_BO of a size that is no whole pages");
  const uint64_t size = (uint64_t{create.size} + kPage - 1) / kPage * kPage;
  std::vector<BoPtr> taken;
  for (const auto& [handle, bo] : file.bos) taken.push_back(bo);
  // The address of a buffer that a job uses is kept until the job is done, whatever its handle.
  for (const auto& job : file.queue) {
    taken.insert(taken.end(), job->memory.begin(), job->memory.end());
  }
  const auto is_free = [](const BoPtr& bo) { return Clock::now() >= bo->held_until; };
  file.closed.erase(std::remove_if(file.closed.begin(), file.closed.end(), is_free),
                    file.closed.end());
  taken.insert(taken.end(), file.closed.begin(), file.closed.end());
  const uint64_t address = allocate_up(taken, size, file.config.address_space_bytes);
  if (address == UINT64_MAX) return ENOSPC;
  if (size >= kTooLarge) return ENOMEM;
  const BoPtr bo = make_bo(file, size);
  if (bo == nullptr) return ENOMEM;
  bo->address = address;
  file.bos[bo->handle] = bo;
  create.handle = bo->handle;
  create.dma_address = bo->address;
  create.offset = bo->offset;
  return 0;
}

int prep_bo(File& file, const rocket::PrepBo& prep, std::unique_lock<std::mutex>& lock) {
  if (prep.reserved != 0) return EINVAL;
  const BoPtr bo = find_bo(file, prep.handle);
  if (bo == nullptr) return ENOENT;
  const Clock::time_point deadline{std::chrono::nanoseconds(prep.timeout_ns)};
  // What is not done is EBUSY if the deadline had passed already, otherwise ETIMEDOUT.
  const bool has_passed = Clock::now() >= deadline;
  while (bo->running_jobs != 0) {
    if (kernel().gone) return ENODEV;
    if (has_passed) return EBUSY;
    if (Clock::now() >= deadline) return ETIMEDOUT;
    kernel().changed.wait_until(lock, deadline);
  }
  std::memcpy(bo->host, bo->device.data(), bo->size);
  bo->host_holds = true;
  return 0;
}

int fini_bo(File& file, const rocket::FiniBo& fini) {
  if (fini.reserved != 0) return EINVAL;
  const BoPtr bo = find_bo(file, fini.handle);
  if (bo == nullptr) return ENOENT;
  if (bo->running_jobs != 0) violation("FINI_BO of a buffer that the device is writing");
  std::memcpy(bo->device.data(), bo->host, bo->size);
  bo->host_holds = false;
  return 0;
}

// Handles of one list; false: the kernel would drop the job.
bool look_up(File& file, uint64_t list, uint32_t count, std::set<uint32_t>* seen,
             std::vector<BoPtr>* found) {
  const auto* handles = reinterpret_cast<const uint32_t*>(list);
  for (uint32_t i = 0; i < count; ++i) {
    const BoPtr bo = find_bo(file, handles[i]);
    if (bo == nullptr) {
      violation("a job names a handle that does not exist");
      return false;
    }
    if (!seen->insert(handles[i]).second) {
      violation("a job names a buffer twice; the kernel drops it without a word");
      return false;
    }
    if (bo->host_holds) violation("a job uses a buffer that was not given back with FINI_BO");
    found->push_back(bo);
  }
  return true;
}

bool inside(const std::vector<BoPtr>& memory, const TaskRecord& task) {
  for (const BoPtr& bo : memory) {
    if (task.regcmd >= bo->address &&
        task.regcmd + uint64_t{task.regcmd_count} * 8 <= bo->address + bo->size) {
      return true;
    }
  }
  return false;
}

// What goes wrong here the kernel does not report.
void submit_job(File& file, const rocket::Job& source, const Action& action) {
  if (source.task_count == 0 || source.task_struct_size < sizeof(rocket::Task)) {
    violation("a job without tasks, or with task records that are too small");
    return;
  }
  if (source.tasks == 0) {
    violation("a job whose tasks are nowhere; the kernel drops it without a word");
    return;
  }
  auto job = std::make_shared<Job>();
  std::set<uint32_t> seen;
  std::vector<BoPtr> inputs;
  if (!look_up(file, source.in_bo_handles, source.in_bo_handle_count, &seen, &inputs) ||
      !look_up(file, source.out_bo_handles, source.out_bo_handle_count, &seen, &job->outputs)) {
    return;
  }
  job->memory = inputs;
  job->memory.insert(job->memory.end(), job->outputs.begin(), job->outputs.end());
  for (const auto& [handle, bo] : file.bos) {
    if (seen.count(handle) == 0) job->others.push_back(bo);
  }
  const auto* records = reinterpret_cast<const uint8_t*>(source.tasks);
  for (uint32_t i = 0; i < source.task_count; ++i) {
    rocket::Task task;
    std::memcpy(&task, records + size_t{i} * source.task_struct_size, sizeof(task));
    if (task.regcmd_count == 0) {
      violation("a task without commands (stock kernels free its array twice)");
      return;
    }
    job->tasks.push_back({task.regcmd, task.regcmd_count});
    if (!inside(inputs, job->tasks.back())) {
      violation("a task's commands are in no buffer that the job lists as input");
    }
    if (task.regcmd % 64 != 0) violation("a task's commands are not aligned to 64 bytes");
  }
  const bool knows_flags =
      file.config.major > 1 || (file.config.major == 1 && file.config.minor >= 1);
  if ((source.flags & rocket::kJobBatched) != 0 && knows_flags) {
    if (job->tasks.size() > rocket::kMaxChainTasks) violation("a chain of more than 4095 tasks");
    job->chained = job->tasks.size() > 1;
  }
  job->ppu_done = (source.flags & rocket::kJobPpuDone) != 0;
  job->chip = file.config.chip;
  job->fate = action.fate;
  job->hang_at = action.hang_at;
  for (const BoPtr& bo : job->outputs) ++bo->running_jobs;
  file.queue.push_back(job);
  wake_cores();
}

int submit(File& file, const rocket::Submit& submit, const Action& action) {
  if (submit.reserved != 0) return EINVAL;
  const bool knows_flags =
      file.config.major > 1 || (file.config.major == 1 && file.config.minor >= 1);
  if (submit.job_struct_size < rocket::kJobBytes) return EINVAL;
  if (submit.jobs == 0 && submit.job_count != 0) return EFAULT;
  const auto* records = reinterpret_cast<const uint8_t*>(submit.jobs);
  for (uint32_t i = 0; i < submit.job_count; ++i) {
    rocket::Job job;
    job.flags = 0;
    job.reserved = 0;
    const size_t size =
        std::min<size_t>(submit.job_struct_size, knows_flags ? sizeof(job) : rocket::kJobBytes);
    std::memcpy(&job, records + size_t{i} * submit.job_struct_size, size);
    if (!knows_flags && submit.job_struct_size > rocket::kJobBytes) {
      violation("job records of a later interface for a driver that ignores their flags");
    }
    uint32_t known = rocket::kJobBatched;
    if (file.config.minor >= 3 || file.config.major > 1) known |= rocket::kJobPpuDone;
    if ((job.flags & ~known) != 0 || job.reserved != 0) return EINVAL;
    submit_job(file, job, action);
  }
  return 0;
}

// Whether a job may still use the buffer.
bool is_used(const File& file, const BoPtr& bo) {
  for (const auto& job : file.queue) {
    if (std::find(job->memory.begin(), job->memory.end(), bo) != job->memory.end()) return true;
  }
  return false;
}

// Padding is ignored.
int gem_close(File& file, const drm::GemClose& close) {
  const BoPtr bo = find_bo(file, close.handle);
  if (bo == nullptr) {
    violation("GEM_CLOSE of a handle that does not exist");
    return EINVAL;
  }
  // The driver keeps what its jobs name; a program should not rely on it.
  if (is_used(file, bo)) violation("GEM_CLOSE of a buffer that a job may still use");
  if (Clock::now() < bo->held_until) file.closed.push_back(bo);
  file.bos.erase(close.handle);
  return 0;
}

}  // namespace

int rocket_request(const FilePtr& file, uint32_t code, void* argument,
                   std::unique_lock<std::mutex>& lock) {
  const char* name = code == drm::kGetVersion    ? "VERSION"
                     : code == drm::kCloseHandle ? "GEM_CLOSE"
                     : code == rocket::kCreateBo ? "CREATE_BO"
                     : code == rocket::kSubmit   ? "SUBMIT"
                     : code == rocket::kPrepBo   ? "PREP_BO"
                     : code == rocket::kFiniBo   ? "FINI_BO"
                                                 : nullptr;
  if (name == nullptr) {
    violation("an unknown request");
    constexpr uint32_t kDrmType = 'd';
    return (code >> 8 & 0xff) == kDrmType ? EINVAL : ENOTTY;
  }
  if (argument == nullptr) return EFAULT;
  const Action action = next_action(name, lock);
  // A handle can be closed whatever happens to the device.
  if (action.error != 0 && !(code == drm::kCloseHandle && kernel().gone)) return action.error;
  switch (code) {
    case drm::kGetVersion:
      return version_request(*file, argument);
    case drm::kCloseHandle:
      return gem_close(*file, *static_cast<drm::GemClose*>(argument));
    case rocket::kCreateBo:
      return create_bo(*file, *static_cast<rocket::CreateBo*>(argument));
    case rocket::kPrepBo:
      return prep_bo(*file, *static_cast<rocket::PrepBo*>(argument), lock);
    case rocket::kFiniBo:
      return fini_bo(*file, *static_cast<rocket::FiniBo*>(argument));
    default:
      return submit(*file, *static_cast<rocket::Submit*>(argument), action);
  }
}

}  // namespace standin
