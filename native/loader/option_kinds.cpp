#include "option_kinds.h"

#include <algorithm>
#include <set>

#include "options_gen.h"
#include "text.h"

namespace rk3588 {
namespace {

using Value = std::optional<std::string>;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool are_digits(std::string_view text, size_t most) {
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), is_digit);
}

// Returns the text without spaces around it, in small letters; "" if it is not ASCII.
std::string plain(std::string_view text) {
  if (!is_ascii(text)) return {};
  std::string result(trimmed(text, kSpaces));
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool contains(std::string_view words, std::string_view word) {
  const std::vector<std::string_view> list = split_words(words);
  return std::find(list.begin(), list.end(), word) != list.end();
}

Value choice(const OptionRow& row, std::string_view text) {
  std::string value = plain(text);
  if (!contains(row.words, value)) return {};
  return value;
}

Value choice_or_path(const OptionRow& row, std::string_view text) {
  const std::string_view value = trimmed(text, kSpaces);
  if (!value.empty() && value.front() == '/') return std::string(value);
  return choice(row, text);
}

std::string without_zeros(std::string_view digits) {
  const size_t first = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  return std::string(digits.substr(first));
}

Value integer(const OptionRow& row, std::string_view text) {
  const std::string value = plain(text);
  std::string_view digits = value;
  if (!digits.empty() && digits.front() == '+') digits.remove_prefix(1);
  if (!are_digits(digits, kIntegerDigits)) return {};
  const int64_t number = std::stoll(std::string(digits));
  if (number < row.lowest || number > row.highest) return {};
  return std::to_string(number);
}

Value flag(std::string_view text) {
  const std::string value = plain(text);
  if (contains(kTrueWords, value)) return "true";
  if (contains(kFalseWords, value)) return "false";
  return {};
}

// Bits of the cores that `value` names; 0 if it names none or something else.
unsigned core_mask(const std::string& value, int last) {
  const auto core = [&](std::string_view word) {
    return word.size() == 1 && is_digit(word[0]) && word[0] - '0' <= last ? word[0] - '0' : -1;
  };
  if (value.size() > 2 && value.size() <= 5 && value.compare(0, 2, "0x") == 0) {
    const bool is_hex = value.find_first_not_of("0123456789abcdef", 2) == std::string::npos;
    const unsigned mask = is_hex ? static_cast<unsigned>(std::stoul(value, nullptr, 16)) : 0;
    return (mask >> (last + 1)) == 0 ? mask : 0;
  }
  unsigned mask = 0;
  const std::string_view view = value;
  if (view.size() == 3 && view[1] == '-' && core(view.substr(0, 1)) >= 0 &&
      core(view.substr(2)) >= 0) {
    for (int i = core(view.substr(0, 1)); i <= core(view.substr(2)); ++i) mask |= 1u << i;
    return mask;
  }
  for (const std::string_view word : split_words(view)) {
    if (core(word) < 0) return 0;
    mask |= 1u << core(word);
  }
  return mask;
}

Value cores(const OptionRow& row, std::string_view text) {
  const std::string value = plain(text);
  if (value == "auto" || value == "all") return value;
  const int last = static_cast<int>(row.highest);
  const unsigned mask = core_mask(value, last);
  std::string list;
  for (int i = 0; i <= last; ++i) {
    if ((mask >> i & 1) != 0) list += (list.empty() ? "" : ",") + std::to_string(i);
  }
  if (list.empty()) return {};
  return list;
}

Value nodes(std::string_view text) {
  if (!is_ascii(text)) return {};
  std::set<std::string> found;
  for (const std::string_view part : split_words(text)) {
    std::string word(part);
    for (char& c : word) {
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    }
    if (word.empty()) continue;
    if (are_digits(word, kNodeDigits)) {
      found.insert(without_zeros(word));
    } else if (std::find(kNodeWords.begin(), kNodeWords.end(), word) != kNodeWords.end()) {
      found.insert(word);
    } else {
      return {};
    }
  }
  std::string list;
  for (const std::string& word : found) list += (list.empty() ? "" : ",") + word;
  return list;
}

Value path_or_word(const OptionRow& row, std::string_view text) {
  if (trimmed(text, kSpaces).empty()) return {};
  const std::string word = plain(text);
  return contains(row.words, word) ? word : std::string(text);
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t end = text.find_first_of(kSeparators);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    const size_t next = text.find_first_not_of(kSeparators, end);
    text = next == std::string_view::npos ? std::string_view() : text.substr(next);
  }
}

std::optional<std::string> parse_option(const OptionRow& row, std::string_view text) {
  if (!is_utf8(text)) return {};
  switch (row.kind) {
    case OptionKind::kChoice:
      return choice(row, text);
    case OptionKind::kInteger:
      return integer(row, text);
    case OptionKind::kFlag:
      return flag(text);
    case OptionKind::kChoiceOrPath:
      return choice_or_path(row, text);
    case OptionKind::kCores:
      return cores(row, text);
    case OptionKind::kNodes:
      return nodes(text);
    case OptionKind::kPathOrWord:
      return path_or_word(row, text);
  }
  return {};
}

}  // namespace rk3588
