// The delegate's options in a process without Python; delegate/options.py is the table they come
// from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace rk3588 {

class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

struct NativeOptions {
  std::string device = "auto";
  std::string cores = "auto";  // "auto", "all" or a list such as "0,2"
  uint32_t timeout_ms = 0;
  bool strict = false;
  LogLevel log_level = LogLevel::kWarning;
};

// Explicit pairs first, then RK3588_DELEGATE_<KEY> of the environment, then defaults. Options that
// steer the compiler are checked for their names only: programs are compiled already. Throws
// OptionError naming the key and what is valid.
NativeOptions read_native_options(const char* const* keys, const char* const* values, size_t count);

}  // namespace rk3588
