#include <stdexcept>

#include "sim/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace rk3588::sim {
namespace {

#ifdef __x86_64__
// F16C: not every compiler's __builtin_cpu_supports knows its name.
bool has_half_floats() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

#ifdef __aarch64__
// HWCAP_ASIMDDP of the kernel's interface; headers of older systems lack it.
constexpr unsigned long kDotProducts = 1ul << 20;
#endif

}  // namespace

bool is_available(Isa isa) {
  switch (isa) {
    case Isa::kAuto:
    case Isa::kPortable:
      return true;
#ifdef __x86_64__
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_half_floats();
    case Isa::kAvx512Vnni:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni") && is_available(Isa::kAvx2);
#endif
#ifdef __aarch64__
    case Isa::kNeon:
      return true;
    case Isa::kNeonDot:
      return (getauxval(AT_HWCAP) & kDotProducts) != 0;
#endif
    default:
      return false;
  }
}

Isa best_isa() {
  for (const Isa isa : {Isa::kAvx512Vnni, Isa::kAvx2, Isa::kNeonDot, Isa::kNeon}) {
    if (is_available(isa)) return isa;
  }
  return Isa::kPortable;
}

const Kernels& kernels_for(Isa isa) {
  if (!is_available(isa)) {
    throw std::invalid_argument("this processor or build lacks the requested instruction set");
  }
  if (isa == Isa::kAuto) isa = best_isa();
#ifdef __x86_64__
  if (isa == Isa::kAvx512Vnni) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
#ifdef __aarch64__
  if (isa == Isa::kNeonDot) return kNeonDotKernels;
  if (isa == Isa::kNeon) return kNeonKernels;
#endif
  return kPortableKernels;
}

}  // namespace rk3588::sim
