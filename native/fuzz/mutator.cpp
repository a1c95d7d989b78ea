#include "mutator.h"

#include <cstring>
#include <iterator>

namespace rk3588::fuzz {
namespace {

constexpr uint32_t kEdges[] = {0,         1,          2,   15,       16,         31,
                               63,        64,         255, 0x7ff,    0x1fff,     0xffff,
                               0x7ffffff, 0x7fffffff, ~0u, 1u << 31, 0x0ffffffd, 0xfffffff0};
constexpr size_t kWordBytes = 8;
constexpr size_t kHeaderBytes = 8;
constexpr size_t kPairBytes = 8;

}  // namespace

void mutate(Span<uint8_t> seed, std::mt19937_64* random) {
  const auto below = [&](size_t n) { return static_cast<size_t>((*random)() % n); };
  uint8_t* bytes = seed.data();
  if (seed.size() < kHeaderBytes) return;
  const size_t head = kHeaderBytes + kPairBytes * (bytes[5] + bytes[6] + size_t{256} * bytes[7]);
  if (seed.size() < head + kWordBytes) return;
  const size_t words = (seed.size() - head) / kWordBytes;
  uint8_t* at = bytes + head + kWordBytes * below(words);
  switch (below(6)) {
    case 0:
      bytes[below(seed.size())] ^= static_cast<uint8_t>(1u << below(8));
      break;
    case 1: {
      const uint32_t edge = kEdges[below(std::size(kEdges))];
      std::memcpy(at + 2, &edge, sizeof edge);
      break;
    }
    case 2: {
      uint32_t value;
      std::memcpy(&value, at + 2, sizeof value);
      value += static_cast<uint32_t>(below(9)) - 4;
      std::memcpy(at + 2, &value, sizeof value);
      break;
    }
    case 3:
      std::memcpy(at, bytes + head + kWordBytes * below(words), kWordBytes);
      break;
    case 4:
      at[2 + below(4)] ^= static_cast<uint8_t>(1u << below(8));
      break;
    default:
      bytes[4] = static_cast<uint8_t>(below(8));
      break;
  }
}

}  // namespace rk3588::fuzz
