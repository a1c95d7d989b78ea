// Where this library lies.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace rk3588 {

// Path of the library's file, links resolved, as it is when first asked for: LiteRT loads through
// links that may be gone later. "" if it cannot be told.
inline const std::string& library_path() {
  static const std::string path = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&library_path), &info) == 0) return std::string();
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(info.dli_fname, nullptr),
                                                           &std::free);
    return real == nullptr ? std::string() : std::string(real.get());
  }();
  return path;
}

// Folder that contains the package this library belongs to, links resolved. `levels`: how far
// above the library's file that is.
inline std::string package_parent(int levels = 2) {
  std::string path = library_path();
  for (int level = 0; level < levels; ++level) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {};
    path.resize(slash);
  }
  return path;
}

}  // namespace rk3588
