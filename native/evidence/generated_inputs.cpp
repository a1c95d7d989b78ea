#include "evidence/generated_inputs.h"

#include <cmath>
#include <cstring>
#include <random>

#include "program/host_values.h"

namespace rk3588 {
namespace {

using Random = std::mt19937_64;

float moderate(Random* random) {
  const uint64_t bits = (*random)();
  const int exponent = static_cast<int>(bits % 8) - 6;
  const float fraction = 1.0F + static_cast<float>(bits >> 8 & 0xffff) / 65536.0F;
  return std::ldexp((bits >> 63) != 0 ? -fraction : fraction, exponent);
}

std::vector<uint8_t> bytes(size_t count, Random* random) {
  std::vector<uint8_t> found(count);
  for (uint8_t& byte : found) byte = static_cast<uint8_t>((*random)() >> 56);
  return found;
}

}  // namespace

std::vector<std::vector<uint8_t>> generated_inputs(const std::vector<Binding>& inputs) {
  Random random;
  std::vector<std::vector<uint8_t>> found;
  for (const Binding& input : inputs) {
    std::vector<uint8_t>& tensor = found.emplace_back(input.host_bytes());
    if (input.element != Element::kFp32) {
      tensor = bytes(tensor.size(), &random);
    } else if (input.is_affine()) {
      dequantize(input.affine, bytes(input.elements(), &random).data(), input.elements(),
                 tensor.data());
    } else {
      for (size_t i = 0; i < input.elements(); ++i) {
        const float value = moderate(&random);
        std::memcpy(tensor.data() + i * sizeof(value), &value, sizeof(value));
      }
    }
  }
  return found;
}

}  // namespace rk3588
