// Constants of a partition that a host could overwrite after it was compiled.
#pragma once

#include <cstdint>
#include <vector>

#include "span.h"
#include "tflite/tflite_abi.h"

namespace rk3588 {

// The runtime does not tell a delegate which tensors are inputs of the model, and an input may be a
// constant: then a host that sets it writes into the model's memory. Where that can be written (a
// model given as bytes; a mapped file is read-only) a digest of the constants tells.
class WatchedConstants {
 public:
  WatchedConstants() = default;
  // The constants that `nodes` read; those of nodes whose kernels keep what they made of theirs in
  // the first inference, until then.
  WatchedConstants(tflite::Context* context, const std::vector<int32_t>& nodes);
  // Whether they differ from what they were when this was last asked: once in every inference.
  bool changed();

 private:
  uint64_t digest() const;

  std::vector<Span<const uint8_t>> contents_;
  size_t kept_watched_ = 0;  // the first ones, beyond the first inference
  uint64_t digest_ = 0;
};

}  // namespace rk3588
