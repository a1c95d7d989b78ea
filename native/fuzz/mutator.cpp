// Changes of command streams that keep most of them meaningful. libFuzzer's own know nothing of
// 64-bit commands: every other change is one of ours. Without libFuzzer (RK3588_STANDALONE) all
// are, and this drives the harness, too: seeds and a fixed number of runs. Equal arguments give
// equal runs.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "span.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using rk3588::Span;

constexpr uint32_t kEdges[] = {0,         1,          2,   15,       16,         31,
                               63,        64,         255, 0x7ff,    0x1fff,     0xffff,
                               0x7ffffff, 0x7fffffff, ~0u, 1u << 31, 0x0ffffffd, 0xfffffff0};
constexpr size_t kWordBytes = 8;
constexpr size_t kHeaderBytes = 8;
constexpr size_t kPairBytes = 8;

// One change of a seed in place: a bit, a command's value, a value nearby, or a command copied over
// another. `seed` has the format that fuzz_stream.cpp describes.
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

}  // namespace

#ifdef RK3588_STANDALONE

int main(int argc, char** argv) {
  unsigned long runs = 1000;
  unsigned long seed = 1;
  std::vector<std::vector<uint8_t>> seeds;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--runs" && i + 1 < argc) {
      runs = std::strtoul(argv[++i], nullptr, 10);
    } else if (argument == "--seed" && i + 1 < argc) {
      seed = std::strtoul(argv[++i], nullptr, 10);
    } else {
      std::ifstream file(argument, std::ios::binary);
      std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)),
                                 std::istreambuf_iterator<char>());
      if (bytes.size() >= 8) seeds.push_back(std::move(bytes));
    }
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "usage: fuzz_stream [--runs N] [--seed N] SEED...\n");
    return 2;
  }
  for (const std::vector<uint8_t>& bytes : seeds)
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  std::mt19937_64 random(seed);
  for (unsigned long run = 0; run < runs; ++run) {
    std::vector<uint8_t> bytes = seeds[random() % seeds.size()];
    const unsigned long changes = 1 + random() % 3;
    for (unsigned long k = 0; k < changes; ++k) mutate(bytes, &random);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%lu runs of %zu seeds\n", runs, seeds.size());
  return 0;
}

#else

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::mt19937_64 random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  mutate({data, size}, &random);
  return size;
}

#endif
