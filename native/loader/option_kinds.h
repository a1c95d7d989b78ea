// The kinds of options' values: what they accept and what they mean, as the classes of the same
// names in delegate/option_kinds.py. The table of options is options_gen.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rk3588 {

enum class OptionKind { kChoice, kInteger, kFlag, kChoiceOrPath, kCores, kNodes, kPathOrWord };

struct OptionRow {
  std::string_view key;
  OptionKind kind;
  std::string_view default_value;
  int64_t lowest;  // of an integer or of a core's number
  int64_t highest;
  std::string_view words;  // separated by commas
  std::string_view expected;
};

// The words between separators; a separator at an end leaves an empty word.
std::vector<std::string_view> split_words(std::string_view text);

// The value as one text whatever its spelling ("0x5" and "2, 0" are "0,2"); none if `text` is not
// what the option takes. A NUL byte cannot be in it.
std::optional<std::string> parse_option(const OptionRow& row, std::string_view text);

}  // namespace rk3588
