// Kernels of fp16 tasks without processor-specific code.
#include <cmath>
#include <cstring>

#include "sim/half_kernels.h"

namespace rk3588::sim {
namespace {

#define RK3588_TARGET

struct Floats {
  float x[kHalfLanes];
};

template <typename Function>
inline Floats each(Function function) {
  Floats result;
  for (int i = 0; i < kHalfLanes; ++i) result.x[i] = function(i);
  return result;
}

inline uint16_t half_at(const int8_t* atom, int lane) {
  return static_cast<uint16_t>(static_cast<uint8_t>(atom[2 * lane]) |
                               static_cast<uint8_t>(atom[2 * lane + 1]) << 8);
}

inline Floats load(const float* p) {
  return each([&](int i) { return p[i]; });
}
inline Floats set(float value) {
  return each([&](int) { return value; });
}
inline Floats from_half(const int8_t* atom) {
  return each([&](int i) { return half_to_float(half_at(atom, i)); });
}
inline Floats plus(Floats a, Floats b) {
  return each([&](int i) { return a.x[i] + b.x[i]; });
}
inline Floats minus(Floats a, Floats b) {
  return each([&](int i) { return a.x[i] - b.x[i]; });
}
inline Floats multiply(Floats a, Floats b) {
  return each([&](int i) { return a.x[i] * b.x[i]; });
}
inline Floats smaller(Floats a, Floats b) {
  return each([&](int i) { return a.x[i] < b.x[i] ? a.x[i] : b.x[i]; });
}
inline Floats larger(Floats a, Floats b) {
  return each([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
}
inline Floats select_not_negative(Floats sign, Floats yes, Floats no) {
  return each([&](int i) { return sign.x[i] >= 0 ? yes.x[i] : no.x[i]; });
}
inline void store_half(Floats v, const uint16_t* real, const uint16_t* pend, int8_t* out) {
  for (int i = 0; i < kHalfLanes; ++i) {
    const int bits = real[i] != 0 ? float_to_half(v.x[i]) : pend[i];
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

uint32_t run_block(const double* const* inputs, const double* bounds, size_t count,
                   const double* weights, const double* norms, float* sums, uint16_t* unsure,
                   int pixels) {
  uint32_t any = 0;
  for (int p = 0; p < pixels; ++p) {
    double block[kHalfKernels] = {};
    const double* w = weights;
    for (size_t i = 0; i < count; ++i, w += kHalfKernels) {
      for (int k = 0; k < kHalfKernels; ++k) block[k] += inputs[p][i] * w[k];
    }
    unsure[p] = 0;
    for (int k = 0; k < kHalfKernels; ++k) {
      const double bound = bounds[p] * norms[k];
      const auto low = static_cast<float>(block[k] - bound);
      const auto high = static_cast<float>(block[k] + bound);
      if (low == high) {
        sums[p * kHalfKernels + k] += low;
      } else {
        unsure[p] = static_cast<uint16_t>(unsure[p] | 1u << k);
      }
    }
    any |= unsure[p];
  }
  return any;
}

void run_half_depthwise(const int8_t* input, const ptrdiff_t* offsets, size_t taps,
                        const float* weights, float* acc, size_t pixels) {
  for (size_t p = 0; p < pixels; ++p, acc += kHalfLanes, input += kAtomBytes) {
    Floats sum = set(0.0f);
    for (size_t t = 0; t < taps; ++t) {
      sum = plus(sum, multiply(from_half(input + offsets[t]), load(weights + t * kHalfLanes)));
    }
    std::memcpy(acc, sum.x, sizeof sum.x);
  }
}

}  // namespace

const HalfKernels kPortableHalfKernels = {load_half_values, run_block, run_half_depthwise,
                                          run_half_stages};

}  // namespace rk3588::sim
