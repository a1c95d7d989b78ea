#include "rknpu/rknpu_buffer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "rknpu/rknpu_uapi.h"

namespace rk3588 {
namespace {

// The driver takes what memory there is: the kernel kills processes where it does not suffice.
constexpr size_t kLargeBytes = size_t{4} << 20;
constexpr uint64_t kReserveBytes = uint64_t{64} << 20;

// The memory that the kernel says it can give away. Unknown: more than anybody asks for.
uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    uint64_t kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<uint64_t>::max();
}

void require_memory(const std::string& path, size_t size, const std::string& what) {
  if (size < kLargeBytes) return;
  const uint64_t available = available_bytes();
  if (available >= size + kReserveBytes) return;
  throw DeviceError(path + ": " + what + ": only " + std::to_string(available >> 20) +
                    " MiB of memory are available, and the kernel ends processes where it runs "
                    "out; close other programs or interpreters, or use a smaller model");
}

// More than the page allocator's largest block (4 MiB), so of several segments.
constexpr size_t kBytes = size_t{8} << 20;
constexpr size_t kLineBytes = 64;
constexpr size_t kLinesPerPage = kDevicePageBytes / kLineBytes;
constexpr uint8_t kGiven = 0x5a;
constexpr uint8_t kDiscarded = 0xa5;
// A line may leave the cache by itself, and then reads as if it was not reached.
constexpr int kRounds = 3;

}  // namespace

RknpuBuffer::RknpuBuffer(std::shared_ptr<RknpuFile> file, size_t size, Use use)
    : file_(std::move(file)), size_(size) {
  const DrmFile& drm = file_->file;
  const std::string what = "MEM_CREATE of " + std::to_string(size) + " bytes";
  if (size == 0) throw DeviceError(drm.path() + ": " + what);
  const size_t pages = whole_pages(size);
  require_memory(drm.path(), pages, what);
  rknpu::MemCreate request;
  request.flags = file_->memory_flags(use == Use::kTable);
  request.size = pages;
  create(&request, what);
  try {
    require_32_bit_address(drm.path(), address_, pages);
    rknpu::MemMap map;
    map.handle = handle_;
    drm.request(rknpu::kMemMap, &map, "MEM_MAP");
    mapping_ = std::make_unique<DrmMapping>(drm, map.offset, pages);
  } catch (...) {
    destroy();
    throw;
  }
}

// MEM_CREATE of a handle that exists tells where the buffer lies, as in all versions of the driver.
RknpuBuffer::RknpuBuffer(std::shared_ptr<RknpuFile> file, std::shared_ptr<SharedMemory> memory)
    : file_(std::move(file)), size_(memory->bytes().size()), shared_(std::move(memory)) {
  const DrmFile& drm = file_->file;
  drm::PrimeHandle prime;
  prime.descriptor = shared_->descriptor();
  {
    const std::lock_guard<std::mutex> lock(file_->shared_handles.mutex);
    drm.request(drm::kDescriptorToHandle, &prime, "PRIME_FD_TO_HANDLE");
    handle_ = prime.handle;
    ++file_->shared_handles.uses[handle_];
  }
  try {
    rknpu::MemCreate request;
    request.handle = handle_;
    create(&request, "MEM_CREATE of shared memory");
    require_32_bit_address(drm.path(), address_, whole_pages(size_));
  } catch (...) {
    destroy();
    throw;
  }
}

void RknpuBuffer::create(rknpu::MemCreate* request, const std::string& what) {
  const DrmFile& drm = file_->file;
  const bool is_old = !file_->version.at_least(0, 9);
  drm.require_mine(what);
  const int number = drm.try_request(is_old ? rknpu::kOldMemCreate : rknpu::kMemCreate, request);
  if (number == EFAULT) {
    throw KernelError(drm.path() + ": " + what + ": " + std::strerror(number) +
                          "; this driver's word for a device address space that is full: close "
                          "other interpreters of this process, or use a smaller model",
                      number);
  }
  if (number != 0) drm.fail(what, number);
  handle_ = request->handle;
  object_ = request->obj_addr;
  address_ = request->dma_addr;
}

RknpuBuffer::~RknpuBuffer() {
  mapping_.reset();
  destroy();
}

// A forked child shares the open file: destroying the buffer there would take it from its parent.
void RknpuBuffer::destroy() noexcept {
  if (!file_->file.is_mine()) return;
  if (shared_ != nullptr) {
    const std::lock_guard<std::mutex> lock(file_->shared_handles.mutex);
    if (--file_->shared_handles.uses[handle_] > 0) return;
    file_->shared_handles.uses.erase(handle_);
    return file_->file.close_handle(handle_);
  }
  rknpu::MemDestroy destroy;
  destroy.handle = handle_;
  destroy.obj_addr = object_;
  static_cast<void>(file_->file.try_request(rknpu::kMemDestroy, &destroy));
}

void RknpuBuffer::synchronise(uint32_t direction, size_t offset, size_t size) {
  if (shared_ != nullptr) {
    if (direction == rknpu::kSyncToDevice) return shared_->end(SharedMemory::Access::kWrite);
    return shared_->begin(SharedMemory::Access::kRead);
  }
  if (!file_->is_cached()) return;
  rknpu::MemSync sync;
  sync.flags = direction;
  sync.obj_addr = object_;
  sync.offset = offset;
  sync.size = size == size_ ? whole_pages(size) : size;
  file_->file.require_mine("MEM_SYNC");
  // Words only where they are needed: every run comes here and allocates nothing.
  const int number = file_->file.try_request(rknpu::kMemSync, &sync);
  if (number == 0) return;
  file_->file.fail(
      direction == rknpu::kSyncToDevice ? "MEM_SYNC to the device" : "MEM_SYNC from the device",
      number);
}

bool synchronises_all(const std::shared_ptr<RknpuFile>& file) {
  RknpuBuffer buffer(file, kBytes, RknpuBuffer::Use::kHost);
  volatile uint8_t* bytes = buffer.bytes().data();
  constexpr size_t kPages = kBytes / kDevicePageBytes;
  // One line of each page, each in another set of the cache.
  const auto place = [](size_t page) {
    return page * kDevicePageBytes + page % kLinesPerPage * kLineBytes;
  };
  std::vector<bool> is_reached(kPages, false);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t page = 0; page < kPages; ++page) bytes[place(page)] = kGiven;
    buffer.synchronise(rknpu::kSyncToDevice);
    for (size_t page = 0; page < kPages; ++page) bytes[place(page)] = kDiscarded;
    buffer.synchronise(rknpu::kSyncFromDevice);
    for (size_t page = 0; page < kPages; ++page) {
      if (bytes[place(page)] == kGiven) is_reached[page] = true;
    }
  }
  const auto reached = std::count(is_reached.begin(), is_reached.end(), true);
  return reached == 0 || static_cast<size_t>(reached) == kPages;
}

}  // namespace rk3588
