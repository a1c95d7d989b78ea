// Types of elements that the blocks read, compute with and write, by their register codes.
#pragma once

#include <cstdint>
#include <cstring>

namespace rk3588::sim {

enum class Element : uint8_t {
  kInt8 = 0,
  kInt16 = 1,
  kFp16 = 2,
  kBf16 = 3,
  kInt32 = 4,
  kFp32 = 5,
  kInt4 = 6,
  kTf32 = 7,
};

inline uint32_t element_bytes(Element e) {
  switch (e) {
    case Element::kInt16:
    case Element::kFp16:
    case Element::kBf16:
      return 2;
    case Element::kInt32:
    case Element::kFp32:
    case Element::kTf32:
      return 4;
    default:
      return 1;
  }
}

inline bool is_float(Element e) {
  return e == Element::kFp16 || e == Element::kBf16 || e == Element::kFp32 || e == Element::kTf32;
}

inline const char* element_name(Element e) {
  constexpr const char* kNames[] = {"int8",  "int16", "fp16", "bf16",
                                    "int32", "fp32",  "int4", "tf32"};
  return kNames[static_cast<int>(e) & 7];
}

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// The bits of a half in memory, which is little-endian.
inline uint16_t load_half(const void* bytes) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  return static_cast<uint16_t>(at[0] | at[1] << 8);
}

// IEEE half precision, subnormal numbers included.
float half_to_float(uint16_t half);
// Rounds to nearest, ties to even; overflow gives infinity; all NaN are one, of no sign, for
// which sign an operation gives depends on the processor.
uint16_t float_to_half(float value);

}  // namespace rk3588::sim
