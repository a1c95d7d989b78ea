// The part of the kernel's DRM interface that every driver shares: request numbers, version,
// handles.
//
// Written from the published layouts; the kernel's headers are not needed to build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rk3588::drm {

// Device numbers of nodes, Documentation/admin-guide/devices.txt.
inline constexpr unsigned kDrmMajor = 226;
inline constexpr unsigned kAccelMajor = 261;

inline constexpr uint32_t kWrite = 1;  // the kernel reads the argument
inline constexpr uint32_t kRead = 2;   // the kernel writes the argument
inline constexpr uint32_t kType = 'd';
inline constexpr uint32_t kCommandBase = 0x40;  // driver requests start here

// direction[31:30] | size[29:16] | type[15:8] | number[7:0], as Linux encodes them on both x86-64
// and aarch64.
constexpr uint32_t request(uint32_t direction, uint32_t number, size_t size) {
  return direction << 30 | static_cast<uint32_t>(size) << 16 | kType << 8 | number;
}

struct Version {
  int32_t major = 0;
  int32_t minor = 0;
  int32_t patch = 0;
  int32_t padding = 0;
  uint64_t name_bytes = 0;  // in: room at `name`; out: length of the name
  uint64_t name = 0;
  uint64_t date_bytes = 0;
  uint64_t date = 0;
  uint64_t description_bytes = 0;
  uint64_t description = 0;
};
static_assert(sizeof(Version) == 64);
static_assert(offsetof(Version, name_bytes) == 16 && offsetof(Version, name) == 24);
static_assert(offsetof(Version, date_bytes) == 32 && offsetof(Version, description) == 56);

struct GemClose {
  uint32_t handle = 0;
  uint32_t padding = 0;
};
static_assert(sizeof(GemClose) == 8);

struct PrimeHandle {
  uint32_t handle = 0;  // out
  uint32_t flags = 0;
  int32_t descriptor = -1;  // of a dma-buf
};
static_assert(sizeof(PrimeHandle) == 12 && offsetof(PrimeHandle, descriptor) == 8);

inline constexpr uint32_t kGetVersion = request(kRead | kWrite, 0x00, sizeof(Version));
inline constexpr uint32_t kCloseHandle = request(kWrite, 0x09, sizeof(GemClose));
inline constexpr uint32_t kDescriptorToHandle = request(kRead | kWrite, 0x2e, sizeof(PrimeHandle));
static_assert(kGetVersion == 0xc0406400 && kCloseHandle == 0x40086409 &&
              kDescriptorToHandle == 0xc00c642e);

}  // namespace rk3588::drm
