// Kernels of fp16 tasks without processor-specific code.
#include <cmath>
#include <cstring>

#include "sim/half_kernels.h"

namespace rk3588::sim {
namespace {

#define RK3588_TARGET

using Floats = float __attribute__((vector_size(kHalfLanes * sizeof(float))));

inline uint16_t half_at(const int8_t* atom, int lane) {
  return static_cast<uint16_t>(static_cast<uint8_t>(atom[2 * lane]) |
                               static_cast<uint8_t>(atom[2 * lane + 1]) << 8);
}

inline Floats from_half(const int8_t* atom) {
  Floats result;
  for (int i = 0; i < kHalfLanes; ++i) result[i] = half_to_float(half_at(atom, i));
  return result;
}

inline Floats smaller(Floats a, Floats b) { return a < b ? a : b; }
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

inline void store_half(Floats v, const uint16_t* real, const uint16_t* pend, int8_t* out) {
  for (int i = 0; i < kHalfLanes; ++i) {
    const int bits = real[i] != 0 ? float_to_half(v[i]) : pend[i];
    out[2 * i] = static_cast<int8_t>(bits & 0xff);
    out[2 * i + 1] = static_cast<int8_t>(bits >> 8);
  }
}

#include "sim/half_stages.inc"

double load_half_values(const int8_t* atoms, ptrdiff_t pitch, size_t surfaces, double* values,
                        uint64_t* bits) {
  double squares = 0.0;
  uint64_t places = 0;
  for (size_t s = 0; s < surfaces; ++s) {
    for (int i = 0; i < kHalfLanes; ++i) {
      const double value = half_to_float(half_at(atoms + static_cast<ptrdiff_t>(s) * pitch, i));
      values[s * kHalfLanes + i] = value;
      squares += value * value;
      if (std::isfinite(value)) places |= static_cast<uint64_t>(std::fabs(value) * kHalfUnits);
    }
  }
  *bits = places;
  return squares;
}

constexpr int kDoubles = 2;
using Doubles = double __attribute__((vector_size(kDoubles * sizeof(double))));
constexpr int kMostPixels = 2;

inline Doubles multiply_add(Doubles a, Doubles b, Doubles sum) { return a * b + sum; }

inline uint32_t add_where_sure(Doubles block, Doubles bound, float* sums) {
  uint32_t unsure = 0;
  for (int i = 0; i < kDoubles; ++i) {
    const auto low = static_cast<float>(block[i] - bound[i]);
    if (low == static_cast<float>(block[i] + bound[i])) {
      sums[i] += low;
    } else {
      unsure |= 1u << i;
    }
  }
  return unsure;
}

#include "sim/half_block.inc"

}  // namespace

const HalfKernels kPortableHalfKernels = {load_half_values, run_block, run_half_depthwise,
                                          run_half_stages};

}  // namespace rk3588::sim
