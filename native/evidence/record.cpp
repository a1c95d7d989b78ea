#include "evidence/record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "digest.h"
#include "host/private_files.h"

namespace rk3588 {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
// Names; programs beyond it are tried again.
constexpr size_t kMost = 1000;
// A state's, which may have the settings of a form: at most 30 of 30 characters.
constexpr size_t kMostText = 900;
constexpr char kIndent[] = "    \"";

[[noreturn]] void refuse(const std::string& text) { throw std::runtime_error(text); }

std::string error_text(const std::string& what) { return what + ": " + std::strerror(errno); }

// Printable ASCII without quotes and backslashes, so that it stands in JSON as it is.
std::string plain(const std::string& text) {
  std::string result = text.substr(0, kMostText);
  for (char& c : result) {
    if (c == '"') c = '\'';
    if (c < ' ' || c > '~' || c == '\\') c = ' ';
  }
  return result;
}

uint32_t checksum(const std::string& text) {
  return crc32({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

std::string hex(uint32_t number) {
  char digits[9];
  std::snprintf(digits, sizeof(digits), "%08x", number);
  return digits;
}

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

void make_folders(const std::string& folder) {
  for (size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    if (mkdir(folder.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST) {
      refuse(error_text(folder));
    }
    if (slash == std::string::npos) return;
  }
}

// "" if there is none.
std::string content_of(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0 && errno == ENOENT) return {};
  const File file(descriptor < 0 ? nullptr : fdopen(descriptor, "r"));
  if (file == nullptr) refuse(error_text(path));
  struct stat status{};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) refuse(path + " is no file");
  check_private_file(descriptor, path);
  std::string content(kMaxBytes, '\0');
  content.resize(std::fread(content.data(), 1, content.size(), file.get()));
  if (std::ferror(file.get()) != 0) refuse(error_text(path));
  return content;
}

}  // namespace

std::string default_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/rk3588-delegate";
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return {};
  return std::string(home) + "/.cache/rk3588-delegate";
}

Record::Record(std::string folder, BoardKey key) : key_(std::move(key)) {
  for (auto& [name, value] : key_) value = plain(value);
  if (folder.empty()) {
    problem_ = "there is no folder for them (HOME and XDG_CACHE_HOME are not set)";
    return;
  }
  try {
    make_folders(folder);
    folder = private_folder(folder);
  } catch (const std::runtime_error& error) {
    problem_ = error.what();
    return;
  }
  std::string all;
  for (const auto& [name, value] : key_) all += name + "=" + value + "\n";
  path_ = folder + "/board-" + hex(checksum(all)) + ".json";
  read();
}

std::string Record::state(const std::string& name) const {
  const auto found = states_.find(name);
  return found == states_.end() ? std::string() : found->second;
}

void Record::set(const std::string& name, const std::string& state) {
  const std::string text = plain(state);
  if (text.empty()) return forget(name);
  if (this->state(name) == text) return;
  if (states_.size() >= kMost) states_.clear();
  states_[name] = text;
  write();
}

void Record::forget(const std::string& name) {
  if (states_.erase(name) != 0) write();
}

void Record::forget_all() {
  states_.clear();
  write();
}

// {, a line per pair of the key, "shown": {, a line per name, }, the checksum of all that, }.
std::string Record::text() const {
  std::string body = "{\n";
  for (const auto& [name, value] : key_) body += "  \"" + name + "\": \"" + value + "\",\n";
  body += "  \"shown\": {\n";
  size_t left = states_.size();
  for (const auto& [name, state] : states_) {
    body += kIndent + name + "\": \"" + state + (--left > 0 ? "\",\n" : "\"\n");
  }
  body += "  },\n";
  return body + "  \"crc32\": \"" + hex(checksum(body)) + "\"\n}\n";
}

// Whatever is not exactly what write() makes of the same states is not used.
void Record::read() {
  if (path_.empty()) return;
  std::string content;
  try {
    content = content_of(path_);
  } catch (const std::runtime_error& error) {
    problem_ = error.what();
    return;
  }
  if (content.empty()) return;
  std::map<std::string, std::string> found;
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, sizeof(kIndent) - 1, kIndent) != 0) continue;
    const size_t first = sizeof(kIndent) - 1;
    const size_t middle = line.find("\": \"", first);
    const size_t end = line.rfind('"');
    if (middle == std::string::npos || end < middle + 4) continue;
    found[line.substr(first, middle - first)] = line.substr(middle + 4, end - middle - 4);
  }
  found.swap(states_);
  if (text() == content) return;
  found.swap(states_);
  problem_ = path_ + " is damaged or not of this board";
}

void Record::write() {
  if (path_.empty()) return;
  try {
    // On the disk before the program runs: a board that freezes must remember why.
    replace_file(path_, text(), 0600, true);
  } catch (const std::runtime_error& error) {
    problem_ = error.what();
  }
}

RecordLock::RecordLock(const std::string& record_path) {
  if (record_path.empty()) return;
  const std::string path = record_path + ".lock";
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  while (descriptor_ >= 0 && flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

RecordLock::~RecordLock() {
  if (descriptor_ < 0) return;
  // A child that was forked meanwhile has the file open, too.
  flock(descriptor_, LOCK_UN);
  close(descriptor_);
}

std::shared_ptr<BoardEvidence> BoardEvidence::of(const std::string& folder, const BoardKey& key) {
  static std::mutex guard;
  static std::map<std::pair<pid_t, std::string>, std::shared_ptr<BoardEvidence>> boards;
  std::string text = folder;
  for (const auto& [name, value] : key) text += "\n" + name + "=" + value;
  const std::lock_guard<std::mutex> lock(guard);
  std::shared_ptr<BoardEvidence>& board = boards[{getpid(), text}];
  if (board == nullptr) board = std::make_shared<BoardEvidence>(folder, key);
  return board;
}

std::string BoardEvidence::refusal(const std::string& name) const {
  const std::string state = record.state(name);
  const bool is_off = is_state(state, kFailed) || is_state(state, kHung) ||
                      (is_state(state, kSuspected) && hung_here_.count(name) != 0);
  return is_off ? state : "";
}

void BoardEvidence::blame(const std::string& name, const Shortfall& shortfall) {
  const char* word = kFailed;
  if (shortfall.kind == Shortfall::Kind::kHangs) {
    const bool is_second = is_state(record.state(name), kSuspected) && hung_here_.count(name) == 0;
    word = is_second ? kHung : kSuspected;
    hung_here_.insert(name);
  }
  record.set(name, word + (": " + shortfall.text));
}

void BoardEvidence::forgive(const std::string& name) {
  if (is_state(record.state(name), kSuspected) && hung_here_.count(name) == 0) record.forget(name);
}

}  // namespace rk3588
