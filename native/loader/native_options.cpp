#include "native_options.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "option_kinds.h"
#include "options_gen.h"

extern char** environ;

namespace rk3588 {
namespace {

std::string variable_of(const OptionRow& row) {
  std::string name(kOptionPrefix);
  for (const char c : row.key) {
    name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

constexpr size_t kMostShown = 200;  // characters of a bad value that a message repeats

// `text` quoted for a message: its beginning if it is long, and no byte that a terminal acts on.
std::string shown(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted = "'";
  for (const char c : text.substr(0, kMostShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte <= '~') {
      quoted += c;
    } else {
      quoted += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  quoted += "'";
  if (text.size() > kMostShown) quoted += "... (" + std::to_string(text.size()) + " bytes)";
  return quoted;
}

[[noreturn]] void unknown(const std::string& kind, const std::string& name, bool as_variables) {
  std::string valid;
  for (const OptionRow& row : kOptions) {
    if (!valid.empty()) valid += ", ";
    valid += as_variables ? variable_of(row) : std::string(row.key);
  }
  throw OptionError("unknown " + kind + " " + shown(name) + "; valid: " + valid);
}

const OptionRow& row_of(std::string_view key) {
  const auto found = std::find_if(kOptions.begin(), kOptions.end(),
                                  [&](const OptionRow& row) { return row.key == key; });
  if (found == kOptions.end()) unknown("option", std::string(key), false);
  return *found;
}

struct Given {
  std::string label;  // for messages
  std::string text;
};

void collect_environment(std::map<std::string, Given>* given) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (text.substr(0, kOptionPrefix.size()) != kOptionPrefix || equals == text.npos) continue;
    const std::string name(text.substr(0, equals));
    const auto row =
        std::find_if(kOptions.begin(), kOptions.end(),
                     [&](const OptionRow& candidate) { return variable_of(candidate) == name; });
    if (row == kOptions.end()) unknown("environment variable", name, true);
    if (equals + 1 == text.size()) continue;  // empty counts as unset
    (*given)[std::string(row->key)] = {"environment variable " + name,
                                       std::string(text.substr(equals + 1))};
  }
}

}  // namespace

std::map<std::string, std::string> read_options(const char* const* keys, const char* const* values,
                                                size_t count) {
  std::map<std::string, Given> given;
  collect_environment(&given);
  for (size_t i = 0; i < count; ++i) {
    const std::string key(row_of(keys[i] == nullptr ? "" : keys[i]).key);
    given[key] = {"option '" + key + "'", values[i] == nullptr ? "" : values[i]};
  }
  std::map<std::string, std::string> options;
  for (const OptionRow& row : kOptions) options[std::string(row.key)] = row.default_value;
  for (const auto& [key, chosen] : given) {
    const OptionRow& row = row_of(key);
    std::optional<std::string> value = parse_option(row, chosen.text);
    if (!value) {
      throw OptionError(chosen.label + " is " + shown(chosen.text) + "; expected " +
                        std::string(row.expected));
    }
    options[key] = std::move(*value);
  }
  return options;
}

NativeOptions read_native_options(const char* const* keys, const char* const* values,
                                  size_t count) {
  const std::map<std::string, std::string> texts = read_options(keys, values, count);
  NativeOptions options;
  options.device = texts.at("device");
  options.cores = texts.at("cores");
  options.chip = texts.at("chip");
  options.timeout_ms = static_cast<uint32_t>(std::stoul(texts.at("timeout_ms")));
  options.cache_dir = texts.at("cache_dir");
  options.strict = texts.at("strict") == "true";
  options.stats_dir = texts.at("stats_dir");
  options.verify = texts.at("verify");
  const std::vector<std::string_view> levels = split_words(row_of("log_level").words);
  const auto level = std::find(levels.begin(), levels.end(), texts.at("log_level"));
  options.log_level = static_cast<LogLevel>(level - levels.begin());
  return options;
}

}  // namespace rk3588
