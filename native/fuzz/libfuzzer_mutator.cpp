// libFuzzer's own mutations know nothing of 64-bit commands; every other change is one of ours.
#include <cstddef>
#include <cstdint>
#include <random>

#include "mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::mt19937_64 random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  rk3588::fuzz::mutate({data, size}, &random);
  return size;
}
