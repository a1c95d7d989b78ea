// Where this library lies.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace rk3588 {

// Path of the library's file, links resolved; "" if it cannot be told.
inline std::string library_path() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_path), &info) == 0) return {};
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(info.dli_fname, nullptr),
                                                         &std::free);
  return real == nullptr ? std::string() : std::string(real.get());
}

}  // namespace rk3588
