#include "tflite/watched_constants.h"

#include <set>

#include "digest.h"
#include "tflite/file_pages.h"
#include "tflite/graph_access.h"

namespace rk3588 {
namespace {

// Kernels that compute once what follows from a constant (measured with tflite-runtime 2.14).
bool keeps_result(const tflite::Registration& registration) {
  return registration.builtin_code == tflite::kDequantizeOp ||
         registration.builtin_code == tflite::kDensifyOp;
}

}  // namespace

WatchedConstants::WatchedConstants(tflite::Context* context, const std::vector<int32_t>& nodes) {
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

bool WatchedConstants::changed() {
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

uint64_t WatchedConstants::digest() const {
  uint64_t result = 0;
  for (const Span<const uint8_t> bytes : contents_) result = digest_of(bytes, result);
  return result;
}

}  // namespace rk3588
