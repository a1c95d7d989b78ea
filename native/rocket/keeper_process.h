// The agreement of a process with its keeper's.
#pragma once

#include <cstdint>

#if defined(__aarch64__) || defined(__x86_64__)
#define RK3588_HAS_KEEPER 1
#else
#define RK3588_HAS_KEEPER 0
#endif

namespace rk3588 {

// With a descriptor: keep it. Without: the one that was sent under this number need not be kept any
// longer. `descriptor`: its number in the process that sends.
struct KeeperMessage {
  int32_t descriptor;
};

// The pause between the death of the process and the closing of its files: RocketFile waits so long
// for a job that may run.
inline constexpr int kKeeperPauseS = 1;

}  // namespace rk3588
