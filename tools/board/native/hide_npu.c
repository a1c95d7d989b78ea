// Preloaded into the product in the guest: hides what tells that a node is the mainline driver's.
//
//   HIDE_NPU=owner          the node's device has another name than "rknn"
//   HIDE_NPU=owner,version  and the driver calls itself something else, too
//
// So that the case `doctor` of `make board` is known to fail where nodes are not recognised.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

// DRM_IOCTL_VERSION and struct drm_version of the kernel's include/uapi/drm/drm.h.
#define VERSION_REQUEST 0xc0406400u
struct version {
  int32_t number[3];
  uint64_t name_bytes;
  char* name;
  uint64_t others[4];
};

static int hides(const char* what) {
  const char* hidden = getenv("HIDE_NPU");
  return hidden != NULL && strstr(hidden, what) != NULL;
}

ssize_t readlink(const char* path, char* buffer, size_t size) {
  ssize_t (*real)(const char*, char*, size_t) = dlsym(RTLD_NEXT, "readlink");
  const ssize_t length = real(path, buffer, size);
  if (length >= 4 && hides("owner") && memcmp(buffer + length - 4, "rknn", 4) == 0) {
    memcpy(buffer + length - 4, "none", 4);
  }
  return length;
}

int ioctl(int file, unsigned long request, ...) {
  int (*real)(int, unsigned long, void*) = dlsym(RTLD_NEXT, "ioctl");
  va_list more;
  va_start(more, request);
  void* argument = va_arg(more, void*);
  va_end(more);
  const int result = real(file, request, argument);
  struct version* version = argument;
  if (result == 0 && (uint32_t)request == VERSION_REQUEST && hides("version") &&
      version->name != NULL && version->name_bytes > 0) {
    version->name[0] = 'x';
  }
  return result;
}
