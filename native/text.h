// Texts put together of pieces, and of unknown origin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace rk3588 {

// Texts and numbers, one behind the other; numbers as std::to_string writes them.
template <typename... Parts>
std::string joined(const Parts&... parts) {
  std::string text;
  const auto add = [&text](const auto& part) {
    using Part = std::decay_t<decltype(part)>;
    static_assert(!std::is_same_v<Part, char>, "a character would become a number");
    if constexpr (std::is_arithmetic_v<Part>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

// The text without the characters of `spaces` around it.
inline std::string_view trimmed(std::string_view text, std::string_view spaces) {
  const size_t first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

// Whether a text is UTF-8 as Unicode defines it.
inline bool is_utf8(std::string_view text) {
  static constexpr uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};  // no overlong forms
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i++]);
    if (lead < 0x80) continue;
    const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc0 || lead >= 0xf8 || text.size() - i < more) return false;
    uint32_t code = lead & (0x3fu >> more);
    for (size_t k = 0; k < more; ++k) {
      const auto byte = static_cast<uint8_t>(text[i++]);
      if ((byte & 0xc0) != 0x80) return false;
      code = code << 6 | (byte & 0x3f);
    }
    const bool is_surrogate = code >= 0xd800 && code < 0xe000;
    if (code < kSmallest[more] || code > 0x10ffff || is_surrogate) return false;
  }
  return true;
}

}  // namespace rk3588
