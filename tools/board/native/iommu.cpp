#include "iommu.h"

namespace rk3588::board {
namespace {

enum Register : uint32_t {
  kDirectory = 0x00,
  kStatus = 0x04,
  kCommand = 0x08,
  kPageFaultAddress = 0x0c,
  kZapOneLine = 0x10,
  kRawInterrupts = 0x14,
  kClearInterrupts = 0x18,
  kInterruptMask = 0x1c,
  kInterruptStatus = 0x20,
  kAutoGating = 0x24,
};

enum Command : uint32_t {
  kEnablePaging = 0,
  kDisablePaging = 1,
  kEnableStall = 2,
  kDisableStall = 3,
  kZapCache = 4,
  kPageFaultDone = 5,
  kForceReset = 6,
};

constexpr uint32_t kPagingEnabled = 1u << 0;
constexpr uint32_t kPageFaultActive = 1u << 1;
constexpr uint32_t kStallActive = 1u << 2;
constexpr uint32_t kIdle = 1u << 3;
constexpr uint32_t kReplayBufferEmpty = 1u << 4;
constexpr uint32_t kPageFaultIsWrite = 1u << 5;
constexpr uint32_t kStallNotActive = 1u << 31;
constexpr uint32_t kPageFaultInterrupt = 1u << 0;

}  // namespace

uint32_t Iommu::read(uint32_t offset) const {
  switch (offset) {
    case kDirectory:
      return directory_;
    case kStatus:
      return status();
    case kPageFaultAddress:
      return fault_address_;
    case kRawInterrupts:
      return raw_;
    case kInterruptMask:
      return mask_;
    case kInterruptStatus:
      return raw_ & mask_;
    case kAutoGating:
      return gating_;
    default:
      return 0;
  }
}

bool Iommu::write(uint32_t offset, uint32_t value) {
  switch (offset) {
    case kDirectory:
      directory_ = value;
      return true;
    case kCommand:
      return command(value);
    case kZapOneLine:  // nothing is cached
      return true;
    case kClearInterrupts:
      raw_ &= ~value;
      return true;
    case kInterruptMask:
      mask_ = value;
      return true;
    case kAutoGating:
      gating_ = value;
      return true;
    default:
      return false;
  }
}

void Iommu::fault(uint32_t address, bool is_write) {
  fault_address_ = address;
  fault_active_ = true;
  fault_is_write_ = is_write;
  raw_ |= kPageFaultInterrupt;
}

uint32_t Iommu::status() const {
  return (translates_ ? kPagingEnabled : 0) | (fault_active_ ? kPageFaultActive : 0) |
         (stalled_ ? kStallActive : kStallNotActive) | kIdle | kReplayBufferEmpty |
         (fault_is_write_ ? kPageFaultIsWrite : 0);
}

bool Iommu::command(uint32_t value) {
  switch (value) {
    case kEnablePaging:
      translates_ = true;
      return true;
    case kDisablePaging:
      translates_ = false;
      return true;
    case kEnableStall:
    case kDisableStall:
      stalled_ = value == kEnableStall;
      return true;
    case kZapCache:
      return true;
    case kPageFaultDone:
      fault_active_ = false;
      return true;
    case kForceReset:
      reset();
      return true;
    default:
      return false;
  }
}

}  // namespace rk3588::board
