#include "host/stats_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace rk3588 {
namespace {

constexpr mode_t kFolderMode = 0755;

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void refuse(const std::string& path) {
  throw std::runtime_error("option stats_dir: " + path + ": " + std::strerror(errno) +
                           "; it has to be a folder that this process may write, or a new one in "
                           "such a folder; stats_dir=off publishes nothing");
}

std::string path_of(const std::string& folder, const char* ending) {
  return folder + "/" + std::to_string(getpid()) + ending;
}

// Never what somebody else has put there: a file that is there already, or a link, is refused.
void write_new(const std::string& path, const std::string& text) {
  std::unique_ptr<std::FILE, Closer> file(std::fopen(path.c_str(), "wxe"));
  if (file == nullptr && errno == EEXIST && unlink(path.c_str()) == 0) {  // of a killed process
    file.reset(std::fopen(path.c_str(), "wxe"));
  }
  if (file == nullptr) refuse(path);
  const bool is_whole = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
                        std::fflush(file.get()) == 0;
  if (!is_whole) refuse(path);
}

}  // namespace

std::string stats_path(const std::string& folder) { return path_of(folder, ".prom"); }

void write_stats_file(const std::string& folder, const std::string& text) {
  if (mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST) refuse(folder);
  const std::string fresh = path_of(folder, ".new");
  const std::string path = stats_path(folder);
  try {
    write_new(fresh, text);
    if (std::rename(fresh.c_str(), path.c_str()) != 0) refuse(path);
  } catch (const std::exception&) {
    unlink(fresh.c_str());
    throw;
  }
}

}  // namespace rk3588
