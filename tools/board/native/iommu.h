// The registers of one Rockchip IOMMU, version 2 (drivers/iommu/rockchip-iommu.c shows their use).
//
// Tables: 1,024 entries of 32 bits in a directory, each with 1,024 pages of 4 KiB. An entry holds
// address bits 31..12 in place, 35..32 in its bits 11..8 and 39..36 in its bits 7..4.
#pragma once

#include <cstdint>

namespace rk3588::board {

class Iommu {
 public:
  static constexpr uint32_t kWindowBytes = 0x100;

  uint32_t read(uint32_t offset) const;
  // False: a register or command that no known driver uses.
  bool write(uint32_t offset, uint32_t value);
  void reset() { *this = Iommu(); }
  // A transaction met no page: the fault's registers, and the interrupt if it is not masked.
  void fault(uint32_t address, bool is_write);

  bool interrupt() const { return (raw_ & mask_) != 0; }
  bool translates() const { return translates_; }
  uint64_t directory() const { return address_of(directory_); }

  static bool is_valid(uint32_t entry) { return (entry & 1) != 0; }
  static uint64_t address_of(uint32_t entry) {
    return (uint64_t{entry} & 0xfffff000) | (uint64_t{entry} & 0xf00) << 24 |
           (uint64_t{entry} & 0xf0) << 32;
  }

 private:
  uint32_t status() const;
  bool command(uint32_t value);

  uint32_t directory_ = 0;
  uint32_t fault_address_ = 0;
  uint32_t raw_ = 0;
  uint32_t mask_ = 0;
  uint32_t gating_ = uint32_t{1} << 31;
  bool translates_ = false;
  bool stalled_ = false;
  bool fault_active_ = false;
  bool fault_is_write_ = false;
};

}  // namespace rk3588::board
