// Drives the harness where libFuzzer is not available: seeds, a small mutator for 64-bit commands,
// a fixed number of runs. Equal arguments give equal runs.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

}  // namespace

int main(int argc, char** argv) {
  unsigned long runs = 1000;
  unsigned long seed = 1;
  std::vector<Bytes> seeds;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--runs" && i + 1 < argc) {
      runs = std::strtoul(argv[++i], nullptr, 10);
    } else if (argument == "--seed" && i + 1 < argc) {
      seed = std::strtoul(argv[++i], nullptr, 10);
    } else {
      std::ifstream file(argument, std::ios::binary);
      Bytes bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      if (bytes.size() >= 8) seeds.push_back(std::move(bytes));
    }
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "usage: fuzz_stream [--runs N] [--seed N] SEED...\n");
    return 2;
  }
  for (const Bytes& bytes : seeds) LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  std::mt19937_64 random(seed);
  for (unsigned long run = 0; run < runs; ++run) {
    Bytes bytes = seeds[random() % seeds.size()];
    const unsigned long changes = 1 + random() % 3;
    for (unsigned long k = 0; k < changes; ++k)
      rk3588::fuzz::mutate({bytes.data(), bytes.size()}, &random);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%lu runs of %zu seeds\n", runs, seeds.size());
  return 0;
}
