// Constants of a partition that a host could overwrite after it was compiled.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "digest.h"
#include "span.h"
#include "tflite/file_pages.h"
#include "tflite/graph_access.h"
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
  WatchedConstants(tflite::Context* context, const std::vector<int32_t>& nodes) {
    const MappedMemory writable(MappedMemory::Use::kWrite);
    std::set<std::pair<const uint8_t*, size_t>> seen;
    const auto watch = [&](bool is_kept) {
      for (const int32_t node : nodes) {
        if (keeps_result(*operation_at(context, node).registration) != is_kept) continue;
        for (const Span<const uint8_t> bytes : constants_of(context, node)) {
          if (seen.insert({bytes.data(), bytes.size()}).second && writable.touches(bytes))
            contents_.push_back(bytes);
        }
      }
    };
    watch(false);
    kept_watched_ = contents_.size();
    watch(true);
    digest_ = digest();
  }
  // Whether they differ from what they were when this was last asked: once in every inference.
  bool changed() {
    if (contents_.empty()) return false;
    const uint64_t now = digest();
    const bool is_other = now != digest_;
    digest_ = now;
    if (contents_.size() > kept_watched_) {
      contents_.resize(kept_watched_);
      digest_ = digest();
    }
    return is_other;
  }

 private:
  // Kernels that compute once what follows from a constant (measured with tflite-runtime 2.14).
  static bool keeps_result(const tflite::Registration& registration) {
    return registration.builtin_code == tflite::kDequantizeOp ||
           registration.builtin_code == tflite::kDensifyOp;
  }

  uint64_t digest() const {
    uint64_t result = 0;
    for (const Span<const uint8_t> bytes : contents_) result = digest_of(bytes, result);
    return result;
  }

  std::vector<Span<const uint8_t>> contents_;
  size_t kept_watched_ = 0;  // the first ones, beyond the first inference
  uint64_t digest_ = 0;
};

}  // namespace rk3588
