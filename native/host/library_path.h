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

// Folder that contains the package this library belongs to, links resolved.
inline std::string package_parent() {
  std::string path = library_path();
  for (int level = 0; level < 2; ++level) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {};
    path.resize(slash);
  }
  return path;
}

}  // namespace rk3588
