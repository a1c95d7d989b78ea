#include "guest_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "iommu.h"

namespace rk3588::board {
namespace {

constexpr uint64_t kSpaceBytes = uint64_t{1} << 32;
constexpr uint64_t kEntries = 1024;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

GuestRam::GuestRam(int descriptor) : descriptor_(descriptor) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0) fail("the guest's RAM");
  size_ = static_cast<uint64_t>(status.st_size);
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) fail("the guest's RAM");
  bytes_ = static_cast<uint8_t*>(memory);
}

GuestRam::~GuestRam() {
  munmap(bytes_, size_);
  close(descriptor_);
}

bool GuestRam::has(uint64_t address, uint64_t size) const {
  return address >= kRamBase && address - kRamBase <= size_ && size <= size_ - (address - kRamBase);
}

uint32_t GuestRam::word(uint64_t address) const {
  uint32_t value = 0;
  if (has(address, sizeof(value))) {
    std::memcpy(&value, bytes_ + (address - kRamBase), sizeof(value));
  }
  return value;
}

DeviceView::DeviceView() : targets_(kSpaceBytes / kPageBytes, 0) {
  void* memory =
      mmap(nullptr, kSpaceBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("4 GiB of address space");
  bytes_ = static_cast<uint8_t*>(memory);
}

DeviceView::~DeviceView() { munmap(bytes_, kSpaceBytes); }

std::vector<sim::Region> DeviceView::update(const GuestRam& ram, uint64_t directory) {
  std::vector<sim::Region> regions;
  std::vector<Change> changes;
  for (uint64_t d = 0; d < kEntries; ++d) {
    const uint32_t table = ram.word(directory + d * sizeof(uint32_t));
    if (!Iommu::is_valid(table) && !used_[d]) continue;
    bool any = false;
    for (uint64_t p = 0; p < kEntries; ++p) {
      const uint32_t entry =
          Iommu::is_valid(table) ? ram.word(Iommu::address_of(table) + p * sizeof(uint32_t)) : 0;
      uint64_t target = Iommu::is_valid(entry) ? Iommu::address_of(entry) : 0;
      if (!ram.has(target, kPageBytes)) target = 0;
      const uint64_t page = d * kEntries + p;
      if (target != targets_[page]) {
        changes.push_back({page, target});
        targets_[page] = target;
      }
      if (target == 0) continue;
      any = true;
      highest_ = std::max(highest_, target);
      const uint64_t address = page * kPageBytes;
      if (!regions.empty() && regions.back().address + regions.back().bytes.size() == address) {
        sim::Region& last = regions.back();
        last.bytes = {last.bytes.data(), last.bytes.size() + kPageBytes};
      } else {
        sim::Region region;
        region.name = "iova";
        region.address = address;
        region.bytes = {bytes_ + address, kPageBytes};
        regions.push_back(region);
      }
    }
    used_[d] = any;
  }
  apply(ram, changes);
  return regions;
}

// Neighbours with neighbouring targets in one call.
void DeviceView::apply(const GuestRam& ram, const std::vector<Change>& changes) {
  for (size_t i = 0; i < changes.size();) {
    const Change& first = changes[i];
    size_t n = 1;
    while (i + n < changes.size() && changes[i + n].page == first.page + n &&
           changes[i + n].target == (first.target == 0 ? 0 : first.target + n * kPageBytes)) {
      ++n;
    }
    uint8_t* place = bytes_ + first.page * kPageBytes;
    const void* result =
        first.target == 0
            ? mmap(place, n * kPageBytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)
            : mmap(place, n * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                   ram.descriptor(), static_cast<off_t>(first.target - kRamBase));
    if (result == MAP_FAILED) fail("mapping the guest's pages");
    i += n;
  }
}

bool DeviceView::is_mapped(uint64_t address) const {
  return address < kSpaceBytes && targets_[address / kPageBytes] != 0;
}

uint64_t DeviceView::word(uint64_t address) const {
  uint64_t value = 0;
  if (is_mapped(address) && is_mapped(address + sizeof(value) - 1)) {
    std::memcpy(&value, bytes_ + address, sizeof(value));
  }
  return value;
}

}  // namespace rk3588::board
