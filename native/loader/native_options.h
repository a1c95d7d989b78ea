// The delegate's options in a process without Python: the same table and the same values as in one
// with it (delegate/options.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

namespace rk3588 {

class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

// Options for running programs; the others steer the compiler, whose work is done.
struct NativeOptions {
  std::string device;
  std::string cores;  // "auto", "all" or a list such as "0,2"
  std::string chip;   // "auto", or what the board has to be
  uint32_t timeout_ms = 0;
  std::string cache_dir;  // where evidence is kept; "auto" and "off": in the user's own folder
  bool strict = false;
  std::string stats_dir;  // where the counters are published, or "off"
  std::string verify;     // "auto", "off", "sim" or "sample"
  LogLevel log_level = LogLevel::kWarning;

  // Whether every run, or a sample, is repeated on the simulator.
  bool repeats_runs() const { return verify == "sim" || verify == "sample"; }
};

// Every key with its value: from the pairs first, then from RK3588_DELEGATE_<KEY> of the
// environment, then the default. Throws OptionError naming the key and what is valid.
std::map<std::string, std::string> read_options(const char* const* keys, const char* const* values,
                                                size_t count);

// The same, as what running needs of them.
NativeOptions read_native_options(const char* const* keys, const char* const* values, size_t count);

}  // namespace rk3588
