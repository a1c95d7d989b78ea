#include "rknpu_buffer.h"

#include "rknpu_uapi.h"

namespace rk3588 {

RknpuBuffer::RknpuBuffer(std::shared_ptr<RknpuFile> file, size_t size, uint32_t flags)
    : file_(std::move(file)), size_(size) {
  const DrmFile& drm = file_->file;
  const std::string what = "MEM_CREATE of " + std::to_string(size) + " bytes";
  if (size == 0) throw DeviceError(drm.path() + ": " + what);
  const size_t pages = whole_pages(size);
  rknpu::MemCreate create;
  create.flags = flags;
  create.size = pages;
  const bool is_old = !file_->version.at_least(0, 9);
  drm.request(is_old ? rknpu::kOldMemCreate : rknpu::kMemCreate, &create, what);
  handle_ = create.handle;
  object_ = create.obj_addr;
  address_ = create.dma_addr;
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

RknpuBuffer::~RknpuBuffer() {
  mapping_.reset();
  destroy();
}

// A forked child shares the open file: destroying the buffer there would take it from its parent.
void RknpuBuffer::destroy() noexcept {
  if (!file_->file.is_mine()) return;
  rknpu::MemDestroy destroy;
  destroy.handle = handle_;
  destroy.obj_addr = object_;
  static_cast<void>(file_->file.try_request(rknpu::kMemDestroy, &destroy));
}

void RknpuBuffer::synchronise(uint32_t direction, size_t offset, size_t size) {
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

}  // namespace rk3588
