#include "tflite/watched_constants.h"

#include <array>
#include <cstring>
#include <set>

#include "tflite/file_pages.h"
#include "tflite/graph_access.h"

namespace rk3588 {
namespace {

// Odd, with about as many ones as zeros: 2^64 divided by the golden ratio.
constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;
constexpr size_t kLanes = 4;  // so that multiplications need not wait for each other

uint64_t mixed(uint64_t digest, uint64_t word) {
  const uint64_t product = (digest ^ word) * kFactor;
  return product ^ (product >> 32);
}

uint64_t digest_of(Span<const uint8_t> bytes, uint64_t seed) {
  std::array<uint64_t, kLanes> lanes = {seed, ~seed, seed + 1, ~seed - 1};
  size_t position = 0;
  for (; position + sizeof(lanes) <= bytes.size(); position += sizeof(lanes)) {
    std::array<uint64_t, kLanes> words;
    std::memcpy(words.data(), bytes.data() + position, sizeof(words));
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mixed(lanes[lane], words[lane]);
  }
  uint64_t result = bytes.size();
  for (; position < bytes.size(); ++position) result = mixed(result, bytes.data()[position]);
  for (const uint64_t lane : lanes) result = mixed(result, lane);
  return result;
}

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
