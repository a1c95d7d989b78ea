// The way from a library of LiteRT's to the delegate's, which does the work: FOLDER/litert/this
// one, links resolved, and FOLDER/librk3588_delegate.so.
//
// LiteRT wants libraries of certain names; the delegate's would be in a wheel several times. Uses
// nothing of the C++ library.
#pragma once

#include <dlfcn.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rk3588::litert {

// The delegate's library, opened for ever; nullptr after a line on stderr.
inline void* open_behind() {
  constexpr char kLibrary[] = "/librk3588_delegate.so";
  Dl_info info{};
  char path[PATH_MAX + sizeof kLibrary];
  if (dladdr(reinterpret_cast<const void*>(&open_behind), &info) == 0 ||
      realpath(info.dli_fname, path) == nullptr) {
    std::fprintf(stderr, "rk3588 delegate: the folder of LiteRT's library cannot be told\n");
    return nullptr;
  }
  for (int level = 0; level < 2; ++level) {
    char* slash = std::strrchr(path, '/');
    if (slash == nullptr) return nullptr;
    *slash = 0;
  }
  std::strcat(path, kLibrary);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr,
                 "rk3588 delegate: %s; LiteRT's library has to stay in the package, links to it "
                 "may be elsewhere\n",
                 dlerror());
  }
  return library;
}

// Opened while this library is loaded: later the link that it is loaded by may be gone.
static void* const g_behind = open_behind();

// Finds a function of the delegate's library; nullptr after a line on stderr.
template <typename Function>
Function* behind(const char* name) {
  if (g_behind == nullptr) return nullptr;
  auto* found = reinterpret_cast<Function*>(dlsym(g_behind, name));
  if (found == nullptr) {
    std::fprintf(stderr, "rk3588 delegate: %s: it is of another version than this library\n",
                 dlerror());
  }
  return found;
}

}  // namespace rk3588::litert
