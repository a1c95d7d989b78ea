// Where the package of this library lies.
#pragma once

#include <string>

#include "host/library_path.h"

namespace rk3588 {

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
