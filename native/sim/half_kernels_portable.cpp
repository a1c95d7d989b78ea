// Kernels of fp16 tasks without processor-specific code.
#include <algorithm>
#include <cstring>

#include "sim/kernels.h"

namespace rk3588::sim {
namespace {

#define RK3588_TARGET

using Floats = float __attribute__((vector_size(kHalfLanes * sizeof(float))));

constexpr int kVectorPixels = 1;
constexpr int kDepthwiseVectors = 4;

inline Floats from_half(const int8_t* atom) {
  Floats result;
  for (int i = 0; i < kHalfLanes; ++i) result[i] = half_to_float(load_half(atom + 2 * i));
  return result;
}

inline Floats repeated(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline Floats gathered(const float* p, size_t) { return repeated(p); }
inline Floats multiply_add(Floats a, Floats b, Floats sum) { return a * b + sum; }
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

using Atom = Floats;
using Words = uint16_t __attribute__((vector_size(kAtomBytes)));
inline Atom atom_of(const int8_t* bytes) { return from_half(bytes); }
inline void store_doubles(Atom atom, double* to) {
  for (int i = 0; i < kHalfLanes; ++i) to[i] = atom[i];
}
inline uint32_t smallest(Words words) {
  uint16_t least = words[0];
  for (int i = 1; i < kHalfLanes; ++i) least = std::min<uint16_t>(least, words[i]);
  return least;
}

#include "sim/half_load.inc"

constexpr int kDoubles = 2;
using Doubles = double __attribute__((vector_size(kDoubles * sizeof(double))));
constexpr int kMostPixels = 2;

inline Doubles multiply_add(Doubles a, Doubles b, Doubles sum) { return a * b + sum; }

#include "sim/half_dense.inc"

}  // namespace

const HalfKernels kPortableHalfKernels = {load_values, widen, run_dense, run_half_depthwise,
                                          run_stages};

}  // namespace rk3588::sim
