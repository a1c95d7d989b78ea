#include <stdexcept>

#include "sim/kernels.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define RK3588_SIM_X86 1
#endif

namespace rk3588::sim {

bool is_available(Isa isa) {
  switch (isa) {
    case Isa::kAuto:
    case Isa::kPortable:
      return true;
#ifdef RK3588_SIM_X86
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2");
    case Isa::kAvx512Vnni:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
#else
    default:
      return false;
#endif
  }
  return false;
}

Isa best_isa() {
  for (const Isa isa : {Isa::kAvx512Vnni, Isa::kAvx2}) {
    if (is_available(isa)) return isa;
  }
  return Isa::kPortable;
}

const Kernels& kernels_for(Isa isa) {
  if (!is_available(isa)) {
    throw std::invalid_argument("this processor or build lacks the requested instruction set");
  }
#ifdef RK3588_SIM_X86
  if (isa == Isa::kAuto) isa = best_isa();
  if (isa == Isa::kAvx512Vnni) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  return kPortableKernels;
}

}  // namespace rk3588::sim
