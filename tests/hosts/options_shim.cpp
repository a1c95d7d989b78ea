// The option parser of processes without Python, for a test that gives it many values.
#include <cstring>
#include <string>

#include "native_options.h"

// Value of `key` after parsing `value` (null: it is not given), or the error's text; the result is
// 0, or 1 for an error, or -1 if `size` bytes do not hold the text.
extern "C" int parse(const char* key, const char* value, char* out, size_t size) {
  std::string text;
  int code = 0;
  try {
    const char* keys[] = {key};
    const char* values[] = {value};
    const size_t count = value == nullptr ? 0 : 1;
    text = rk3588::read_options(keys, values, count).at(key);
    rk3588::read_native_options(keys, values, count);
  } catch (const rk3588::OptionError& error) {
    text = error.what();
    code = 1;
  }
  if (text.size() >= size) return -1;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return code;
}
