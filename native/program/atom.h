// One atom as the compiler's 16-byte vector: SSE2 and NEON registers alike, which every x86-64 and
// every aarch64 has. Compilers make one instruction of each function below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "chip/chip_gen.h"

namespace rk3588 {

using Atom = uint8_t __attribute__((vector_size(kAtomBytes)));
static_assert(kAtomBytes == 16);

inline Atom load(const uint8_t* source) {
  Atom atom;
  std::memcpy(&atom, source, kAtomBytes);
  return atom;
}

inline void store(uint8_t* target, Atom atom) { std::memcpy(target, &atom, kAtomBytes); }

inline Atom splat(uint8_t value) { return Atom{} + value; }

// Lanes from `begin` on and below `end` are 0xff, the others 0.
inline Atom lanes(size_t begin, size_t end) {
  constexpr Atom kIndex{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Atom(kIndex >= splat(static_cast<uint8_t>(begin))) &
         Atom(kIndex < splat(static_cast<uint8_t>(end)));
}

// Lanes of both in turn: those of the lower halves, and of the upper ones.
inline Atom zip_low(Atom a, Atom b) {
  return Atom{a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3],
              a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7]};
}
inline Atom zip_high(Atom a, Atom b) {
  return Atom{a[8],  b[8],  a[9],  b[9],  a[10], b[10], a[11], b[11],
              a[12], b[12], a[13], b[13], a[14], b[14], a[15], b[15]};
}

}  // namespace rk3588
