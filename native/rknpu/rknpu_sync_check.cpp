#include "rknpu/rknpu_sync_check.h"

#include <algorithm>
#include <vector>

#include "rknpu/rknpu_buffer.h"
#include "rknpu/rknpu_uapi.h"

namespace rk3588 {
namespace {

// More than the page allocator's largest block (4 MiB), so of several segments.
constexpr size_t kBytes = size_t{8} << 20;
constexpr size_t kLineBytes = 64;
constexpr size_t kLinesPerPage = kDevicePageBytes / kLineBytes;
constexpr uint8_t kGiven = 0x5a;
constexpr uint8_t kDiscarded = 0xa5;
// A line may leave the cache by itself, and then reads as if it was not reached.
constexpr int kRounds = 3;

}  // namespace

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
