#include "given_options.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "text.h"

namespace rk3588::litert {
namespace {

constexpr char kSpace[] = " \t\r";
constexpr size_t kMostBytes = 64u << 10;

// "" where there is no such file. Throws OptionError. Never waits, as opening a pipe would.
std::string file_text(const std::string& folder) {
  if (folder.empty()) return {};
  const std::string path = folder + "/" + kOptionsFile;
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    throw OptionError(path + ": " + std::strerror(errno));
  }
  std::string text(kMostBytes + 1, '\0');
  const ssize_t count = read(descriptor, text.data(), text.size());
  const int problem = errno;
  close(descriptor);
  if (count < 0) throw OptionError(path + ": " + std::strerror(problem));
  if (static_cast<size_t>(count) > kMostBytes) {
    throw OptionError(path + " is longer than options are");
  }
  text.resize(static_cast<size_t>(count));
  return text;
}

}  // namespace

template <typename Context>
std::string given_text(const Context& context, void* options, const std::string& folder) {
  void* opaque = nullptr;
  void* payload = nullptr;
  if (options != nullptr && context.get_opaque_options(options, &opaque) == kOk &&
      opaque != nullptr &&
      context.find_opaque_options(opaque, kOptionsIdentifier, &payload) == kOk &&
      payload != nullptr) {
    return static_cast<const char*>(payload);
  }
  return file_text(folder);
}

template <typename Context>
std::string environment_text(const Context& context, void* environment_options, int32_t tag) {
  Any value{};
  if (environment_options == nullptr ||
      context.get_environment_value(environment_options, tag, &value) != kOk ||
      value.type != kAnyText || value.text == nullptr) {
    return {};
  }
  return value.text;
}

template std::string given_text(const RuntimeContext&, void*, const std::string&);
template std::string given_text(const CompilerContext&, void*, const std::string&);
template std::string environment_text(const RuntimeContext&, void*, int32_t);
template std::string environment_text(const CompilerContext&, void*, int32_t);

std::vector<std::pair<std::string, std::string>> split_options(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::istringstream lines(text);
  for (std::string whole; std::getline(lines, whole);) {
    const std::string_view line = trimmed(whole, kSpace);
    if (line.empty() || line.front() == '#') continue;
    const size_t equals = line.find('=');
    if (equals == line.npos) {
      throw OptionError(joined("options for LiteRT: '", line.substr(0, 100), "' is not key=value"));
    }
    pairs.emplace_back(trimmed(line.substr(0, equals), kSpace),
                       trimmed(line.substr(equals + 1), kSpace));
  }
  return pairs;
}

NativeOptions parse_options(const std::string& text) {
  const auto pairs = split_options(text);
  std::vector<const char*> keys;
  std::vector<const char*> values;
  for (const auto& [key, value] : pairs) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  return read_native_options(keys.data(), values.data(), keys.size());
}

}  // namespace rk3588::litert
