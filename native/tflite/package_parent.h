// Where this library lies.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace rk3588 {

// Folder that contains the package this library belongs to, links resolved.
inline std::string package_parent() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&package_parent), &info) == 0) return {};
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(info.dli_fname, nullptr),
                                                         &std::free);
  if (real == nullptr) return {};
  std::string path = real.get();
  for (int level = 0; level < 2; ++level) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {};
    path.resize(slash);
  }
  return path;
}

}  // namespace rk3588
