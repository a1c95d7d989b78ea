#include "evidence/unpack.h"

#include <stdexcept>

namespace rk3588 {
namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr size_t kLeastMatch = 4;

std::vector<uint8_t> from_base64(std::string_view text) {
  std::vector<uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t value = kBase64.find(c);
    if (value == std::string_view::npos) break;  // padding
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> count));
  }
  return bytes;
}

class Block {
 public:
  explicit Block(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  bool is_at_end() const { return next_ == bytes_.size(); }
  uint8_t byte() { return bytes_.at(next_++); }
  size_t length(size_t first) {
    if (first < 15) return first;
    for (uint8_t more = 255; more == 255; first += more) more = byte();
    return first;
  }

 private:
  std::vector<uint8_t> bytes_;
  size_t next_ = 0;
};

}  // namespace

std::vector<uint8_t> unpack(std::string_view text, size_t size) {
  Block block(from_base64(text));
  std::vector<uint8_t> content;
  content.reserve(size);
  while (!block.is_at_end()) {
    const uint8_t token = block.byte();
    for (size_t left = block.length(token >> 4); left > 0; --left) content.push_back(block.byte());
    if (block.is_at_end()) break;
    const size_t low = block.byte();
    const size_t distance = low | size_t{block.byte()} << 8;
    for (size_t left = block.length(token & 15) + kLeastMatch; left > 0; --left) {
      content.push_back(content.at(content.size() - distance));
    }
  }
  if (content.size() != size) throw std::logic_error("the packed proofs are damaged");
  return content;
}

}  // namespace rk3588
