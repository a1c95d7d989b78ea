#include "rknpu/rknpu_device.h"

#include <atomic>
#include <vector>

#include "host/devices.h"
#include "rknpu/rknpu_buffer.h"
#include "rknpu/rknpu_uapi.h"

namespace rk3588 {
namespace {

RknpuBuffer& rknpu_buffer(Buffer& buffer) { return static_cast<RknpuBuffer&>(buffer); }

uint32_t mask_of(const std::vector<int>& cores) {
  uint32_t mask = 0;
  for (const int core : cores) mask |= 1u << core;
  return mask;
}

// One choice for each core that `cores` names: that core, or another of them.
std::vector<RknpuCoreChoice> choices_of(const std::string& cores, const Chip& chip) {
  const std::vector<int> list = usable_cores(cores, chip);
  std::vector<RknpuCoreChoice> choices;
  for (const int core : list) choices.push_back({1u << core, mask_of(list)});
  return choices;
}

// Streams take the listed cores in turn; without a list, every submit takes any that is free.
RknpuCoreChoice next_choice(const std::string& cores, const Chip& chip) {
  static std::atomic<size_t> turn{0};
  const std::vector<RknpuCoreChoice> list = choices_of(cores, chip);
  if (parse_cores(cores, chip).empty()) return {list.front().instead, 0};
  return list[turn++ % list.size()];
}

}  // namespace

RknpuDevice::RknpuDevice(std::shared_ptr<RknpuFile> file, const RknpuCoreChoice& choice,
                         std::string cores, const Chip& chip)
    : file_(std::move(file)), choice_(choice), cores_(std::move(cores)), chip_(chip) {}

std::unique_ptr<Buffer> RknpuDevice::allocate(size_t size, BufferId) {
  return std::make_unique<RknpuBuffer>(file_, size, RknpuBuffer::Use::kHost);
}

std::shared_ptr<Buffer> RknpuDevice::constants(Span<const uint8_t> content, size_t size,
                                               Spend spend) {
  return file_->constants.get(
      content, size, spend, [&]() { return allocate(size, BufferId::kConstants); },
      [](Buffer& buffer) { rknpu_buffer(buffer).synchronise(rknpu::kSyncToDevice); });
}

std::shared_ptr<Buffer> RknpuDevice::adopt(const std::shared_ptr<SharedMemory>& memory, BufferId) {
  return std::make_shared<RknpuBuffer>(file_, memory);
}

void RknpuDevice::sync_for_device(Buffer& buffer) {
  rknpu_buffer(buffer).synchronise(rknpu::kSyncToDevice);
}

void RknpuDevice::sync_for_cpu(Buffer& buffer) {
  rknpu_buffer(buffer).synchronise(rknpu::kSyncFromDevice);
}

std::unique_ptr<Submission> RknpuDevice::prepare(const Submit& submit) {
  require_runs(*this, submit);
  return make_rknpu_submission(file_, choice_, submit, verify_streams(submit));
}

std::shared_ptr<Device> RknpuDevice::open_stream() {
  return make_rknpu_device(file_->file.path(), cores_, chip_);
}

std::vector<std::shared_ptr<Device>> RknpuDevice::open_cores() {
  std::vector<std::shared_ptr<Device>> devices;
  for (const RknpuCoreChoice& choice : choices_of(cores_, chip())) {
    const auto file = RknpuFile::open(file_->file.path());
    devices.push_back(std::make_shared<RknpuDevice>(file, choice, cores_, chip_));
  }
  return devices;
}

std::shared_ptr<Device> make_rknpu_device(const std::string& node, const std::string& cores,
                                          const Chip& chip) {
  return std::make_shared<RknpuDevice>(RknpuFile::open(node), next_choice(cores, chip), cores,
                                       chip);
}

}  // namespace rk3588
