// The guest's RAM, and a core's view of it through its IOMMU.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/simulator.h"

namespace rk3588::board {

// Where QEMU's machine "virt" puts RAM.
inline constexpr uint64_t kRamBase = 0x40000000;
inline constexpr uint64_t kPageBytes = 4096;

// The RAM that QEMU shares. Throws std::system_error.
class GuestRam {
 public:
  // Takes the descriptor.
  explicit GuestRam(int descriptor);
  ~GuestRam();
  GuestRam(const GuestRam&) = delete;
  GuestRam& operator=(const GuestRam&) = delete;

  bool has(uint64_t address, uint64_t size) const;
  // 0 outside the RAM.
  uint32_t word(uint64_t address) const;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
  uint64_t size_ = 0;
  uint8_t* bytes_ = nullptr;
};

// 4 GiB of address space into which the pages of an IOMMU's tables are mapped.
class DeviceView {
 public:
  DeviceView();
  ~DeviceView();
  DeviceView(const DeviceView&) = delete;
  DeviceView& operator=(const DeviceView&) = delete;

  // Maps what the tables below `directory` hold now; returns the mapped ranges. Entries that lead
  // outside the RAM count as not mapped. Throws std::system_error.
  std::vector<sim::Region> update(const GuestRam& ram, uint64_t directory);
  bool is_mapped(uint64_t address) const;
  // The highest guest physical address of a page that was ever mapped.
  uint64_t highest() const { return highest_; }
  // The 64-bit word at `address`, 0 where nothing is mapped.
  uint64_t word(uint64_t address) const;

 private:
  struct Change {
    uint64_t page;
    uint64_t target;  // 0: unmapped
  };
  void apply(const GuestRam& ram, const std::vector<Change>& changes);

  std::vector<uint64_t> targets_;  // by page, guest physical; 0: not mapped
  std::array<bool, 1024> used_{};  // entries of the directory with any page
  uint8_t* bytes_ = nullptr;
  uint64_t highest_ = 0;
};

}  // namespace rk3588::board
