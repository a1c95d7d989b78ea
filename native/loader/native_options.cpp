#include "native_options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <map>
#include <string_view>

extern char** environ;

namespace rk3588 {
namespace {

constexpr std::string_view kPrefix = "RK3588_DELEGATE_";
constexpr uint32_t kMaxTimeoutMs = 3'600'000;  // an hour, as in delegate/options.py

enum class Use {
  kHere,      // means the same as in a Python process
  kCompiler,  // steers the compiler, whose work is done
  kPython     // needs Python unless it has its default
};

struct Key {
  std::string_view name;
  Use use;
  std::string_view default_value = {};
};

constexpr std::array kKeys = {
    Key{"device", Use::kHere},          Key{"cores", Use::kHere},
    Key{"split_rows", Use::kCompiler},  Key{"cache_dir", Use::kCompiler},
    Key{"min_nodes", Use::kCompiler},   Key{"max_partitions", Use::kCompiler},
    Key{"only_faster", Use::kCompiler}, Key{"regcmd", Use::kCompiler},
    Key{"deny_ops", Use::kCompiler},    Key{"strict", Use::kHere},
    Key{"timeout_ms", Use::kHere},      Key{"profile", Use::kPython, "off"},
    Key{"dump", Use::kPython, "off"},   Key{"verify", Use::kPython, "off"},
    Key{"log_level", Use::kHere},
};

std::string capitals(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

std::string trimmed_lower(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  std::string result = text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

const Key* find_key(std::string_view name) {
  const auto found =
      std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& key) { return key.name == name; });
  return found == kKeys.end() ? nullptr : &*found;
}

[[noreturn]] void unknown(const std::string& kind, const std::string& name, bool as_variables) {
  std::string valid;
  for (const Key& key : kKeys) {
    if (!valid.empty()) valid += ", ";
    valid += as_variables ? std::string(kPrefix) + capitals(key.name) : std::string(key.name);
  }
  throw OptionError("unknown " + kind + " '" + name + "'; valid: " + valid);
}

[[noreturn]] void malformed(const std::string& name, const std::string& value,
                            const std::string& expected) {
  throw OptionError(name + " is '" + value + "'; expected " + expected);
}

struct Given {
  std::string label;  // for messages
  std::string value;
};

std::map<std::string, Given> collect(const char* const* keys, const char* const* values,
                                     size_t count) {
  std::map<std::string, Given> given;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (text.substr(0, kPrefix.size()) != kPrefix || equals == std::string_view::npos) continue;
    const std::string name(text.substr(0, equals));
    const Key* match = nullptr;
    for (const Key& key : kKeys) {
      if (std::string(kPrefix) + capitals(key.name) == name) match = &key;
    }
    if (match == nullptr) unknown("environment variable", name, true);
    if (equals + 1 == text.size()) continue;  // empty counts as unset
    given[std::string(match->name)] = {"environment variable " + name,
                                       std::string(text.substr(equals + 1))};
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string name = keys[i] == nullptr ? "" : keys[i];
    if (find_key(name) == nullptr) unknown("option", name, false);
    given[name] = {"option '" + name + "'", values[i] == nullptr ? "" : values[i]};
  }
  return given;
}

uint32_t timeout_of(const Given& given) {
  const std::string text = trimmed_lower(given.value);
  const bool is_number =
      !text.empty() && text.size() <= 9 &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  const unsigned long value = is_number ? std::strtoul(text.c_str(), nullptr, 10) : 0;
  if (!is_number || value > kMaxTimeoutMs) {
    malformed(given.label, given.value, "an integer from 0 to " + std::to_string(kMaxTimeoutMs));
  }
  return static_cast<uint32_t>(value);
}

bool boolean_of(const Given& given) {
  const std::string text = trimmed_lower(given.value);
  for (const char* word : {"1", "true", "yes", "on"}) {
    if (text == word) return true;
  }
  for (const char* word : {"0", "false", "no", "off"}) {
    if (text == word) return false;
  }
  malformed(given.label, given.value, "true or false");
}

LogLevel log_level_of(const Given& given) {
  static constexpr std::array kNames = {"error", "warning", "info", "debug"};
  const std::string text = trimmed_lower(given.value);
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (text == kNames[i]) return static_cast<LogLevel>(i);
  }
  malformed(given.label, given.value, "one of error, warning, info, debug");
}

constexpr int kCores = 3;

// auto, all, a list (0,2), a range (0-2) or a mask (0x5), as a list; as in delegate/options.py.
std::string cores_of(const Given& given) {
  const std::string text = trimmed_lower(given.value);
  if (text == "auto" || text == "all") return text;
  const auto core = [](char c) { return c >= '0' && c < '0' + kCores ? c - '0' : -1; };
  unsigned mask = 0;
  if (text.size() == 3 && text.compare(0, 2, "0x") == 0 && text[2] >= '1' && text[2] <= '7') {
    mask = static_cast<unsigned>(text[2] - '0');
  } else if (text.size() == 3 && text[1] == '-' && core(text[0]) >= 0 && core(text[2]) >= 0) {
    for (int i = core(text[0]); i <= core(text[2]); ++i) mask |= 1u << i;
  } else {
    for (size_t i = 0; i < text.size(); ++i) {
      const bool is_core = i % 2 == 0 && core(text[i]) >= 0;
      const bool is_separator = i % 2 == 1 && (text[i] == ',' || text[i] == '+' || text[i] == ' ');
      if (!is_core && !is_separator) mask = ~0u;
      if (mask != ~0u && is_core) mask |= 1u << core(text[i]);
    }
    if (text.size() % 2 == 0) mask = 0;
  }
  if (mask == 0 || mask == ~0u) {
    malformed(given.label, given.value,
              "auto, all, or cores 0 to 2 as a list (0,2), a range (0-2) or a mask (0x5)");
  }
  std::string list;
  for (int i = 0; i < kCores; ++i) {
    if ((mask >> i & 1) != 0) list += (list.empty() ? "" : ",") + std::to_string(i);
  }
  return list;
}

std::string device_of(const Given& given) {
  const size_t first = given.value.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && given.value[first] == '/') return given.value.substr(first);
  return trimmed_lower(given.value);
}

}  // namespace

NativeOptions read_native_options(const char* const* keys, const char* const* values,
                                  size_t count) {
  NativeOptions options;
  for (const auto& [name, given] : collect(keys, values, count)) {
    const Key& key = *find_key(name);
    if (key.use == Use::kPython && trimmed_lower(given.value) != key.default_value) {
      throw OptionError(given.label + " is '" + given.value +
                        "', which works only in a Python process; remove it");
    }
    if (name == "device") options.device = device_of(given);
    if (name == "cores") options.cores = cores_of(given);
    if (name == "timeout_ms") options.timeout_ms = timeout_of(given);
    if (name == "strict") options.strict = boolean_of(given);
    if (name == "log_level") options.log_level = log_level_of(given);
  }
  return options;
}

}  // namespace rk3588
