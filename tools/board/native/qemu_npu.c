// SPDX-License-Identifier: GPL-2.0-or-later
// Preloaded into an unmodified qemu-system-aarch64: forwards windows of guest physical memory to
// another process over sockets, hands it the guest's RAM and takes interrupt levels from it.
//
//   LD_PRELOAD=qemu_npu.so BOARD_SOCKET=/path qemu-system-aarch64 -machine virt,memory-backend=ram
//     -object memory-backend-memfd,id=ram,size=...,share=on
//
// It uses functions of QEMU that Debian's binaries export for QEMU's own modules. They are no
// stable interface: the declarations below are those of QEMU 7.2 to 11.1. One that is missing is
// named.
//
// The only file of the project under this licence: it becomes a part of QEMU's process. Never in
// the wheel.
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "protocol.h"

// ---- QEMU 7.2 to 11.1
typedef uint64_t hwaddr;
typedef struct MemoryRegion MemoryRegion;
typedef struct Object Object;
typedef struct Notifier {
  void (*notify)(struct Notifier*, void*);
  struct Notifier *next, **previous;
} Notifier;
typedef struct MemoryRegionOps {
  uint64_t (*read)(void*, hwaddr, unsigned);
  void (*write)(void*, hwaddr, uint64_t, unsigned);
  int (*read_with_attrs)(void);
  int (*write_with_attrs)(void);
  int endianness;
  struct {
    unsigned min, max;
    bool unaligned;
    bool (*accepts)(void);
  } valid;
  struct {
    unsigned min, max;
    bool unaligned;
  } impl;
} MemoryRegionOps;
enum { DEVICE_LITTLE_ENDIAN = 2, kMemoryRegionBytes = 4096 };
extern __attribute__((weak)) void qemu_add_machine_init_done_notifier(Notifier*);
extern __attribute__((weak)) MemoryRegion* get_system_memory(void);
extern __attribute__((weak)) void memory_region_init_io(MemoryRegion*, Object*,
                                                        const MemoryRegionOps*, void*, const char*,
                                                        uint64_t);
extern __attribute__((weak)) void memory_region_add_subregion_overlap(MemoryRegion*, hwaddr,
                                                                      MemoryRegion*, int);
extern __attribute__((weak)) int memory_region_get_fd(MemoryRegion*);
extern __attribute__((weak)) MemoryRegion* host_memory_backend_get_memory(Object*);
extern __attribute__((weak)) Object* object_get_objects_root(void);
extern __attribute__((weak)) Object* object_resolve_path_component(Object*, const char*);
extern __attribute__((weak)) Object* object_resolve_path_type(const char*, const char*, bool*);
extern __attribute__((weak)) void* qdev_get_gpio_in(void*, int);
extern __attribute__((weak)) void qemu_set_irq(void*, int);
extern __attribute__((weak)) void cpu_disable_ticks(void);
extern __attribute__((weak)) void cpu_enable_ticks(void);
extern __attribute__((weak)) void qemu_set_fd_handler(int, void (*)(void*), void (*)(void*), void*);
// ----

enum { kLines = 3, kFirstLine = 110, kMostWindows = 16 };

static int g_requests = -1;
static int g_levels_socket = -1;
static void* g_lines[kLines];
static uint32_t g_levels;
static uint32_t g_computes;
static uint64_t g_sequence;

static void die(const char* what) {
  fprintf(stderr, "qemu_npu: %s: %s\n", what, strerror(errno));
  _exit(1);
}

static void receive(int fd, void* data, size_t size) {
  char* at = data;
  while (size > 0) {
    const ssize_t got = read(fd, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) die("the NPU's process is gone");
    at += got;
    size -= (size_t)got;
  }
}

static void transmit(int fd, const void* data, size_t size) {
  if (write(fd, data, size) != (ssize_t)size) die("the NPU's process is gone");
}

static void take_levels(const struct board_answer* answer) {
  if (answer->sequence <= g_sequence) return;
  g_sequence = answer->sequence;
  for (int i = 0; i < kLines; ++i) {
    const int level = answer->levels >> i & 1;
    if (level != (int)(g_levels >> i & 1)) qemu_set_irq(g_lines[i], level);
  }
  g_levels = answer->levels;
  // The simulator is slower than the NPU, on a machine with other work a hundred times: no time of
  // the guest passes meanwhile, or the driver would reset cores that are at work.
  if (answer->computes != g_computes) {
    if (answer->computes) {
      cpu_disable_ticks();
    } else {
      cpu_enable_ticks();
    }
  }
  g_computes = answer->computes;
}

static uint64_t ask(uint32_t operation, uintptr_t window, uint64_t offset, uint64_t value) {
  const struct board_request request = {operation, (uint32_t)window, offset, value};
  struct board_answer answer;
  transmit(g_requests, &request, sizeof(request));
  receive(g_requests, &answer, sizeof(answer));
  take_levels(&answer);
  return answer.value;
}

static uint64_t read_window(void* window, hwaddr offset, unsigned size) {
  (void)size;
  return ask(kBoardRead, (uintptr_t)window, offset, 0);
}

static void write_window(void* window, hwaddr offset, uint64_t value, unsigned size) {
  (void)size;
  ask(kBoardWrite, (uintptr_t)window, offset, value);
}

static void levels_changed(void* unused) {
  (void)unused;
  struct board_answer answer;
  receive(g_levels_socket, &answer, sizeof(answer));
  take_levels(&answer);
}

static int connect_to(const char* path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr*)&address, sizeof(address)) != 0) die(path);
  return fd;
}

static void send_ram(void) {
  Object* ram = object_resolve_path_component(object_get_objects_root(), "ram");
  if (ram == NULL) die("no memory backend with id=ram");
  const int fd = memory_region_get_fd(host_memory_backend_get_memory(ram));
  char byte = 0;
  struct iovec data = {&byte, 1};
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  struct msghdr message = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof(control.bytes)};
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof(int));
  if (sendmsg(g_requests, &message, 0) != 1) die("sending the RAM");
}

static void machine_is_ready(Notifier* notifier, void* data) {
  (void)notifier, (void)data;
  static const MemoryRegionOps kOperations = {.read = read_window,
                                              .write = write_window,
                                              .endianness = DEVICE_LITTLE_ENDIAN,
                                              .valid = {4, 4, false, NULL},
                                              .impl = {4, 4, false}};
  g_requests = connect_to(getenv("BOARD_SOCKET"));
  g_levels_socket = connect_to(getenv("BOARD_SOCKET"));
  send_ram();
  void* gic = object_resolve_path_type("", "arm_gic", NULL);
  if (gic == NULL) die("no GIC: only -machine virt,gic-version=2 is supported");
  for (int i = 0; i < kLines; ++i) g_lines[i] = qdev_get_gpio_in(gic, kFirstLine + i);
  uint64_t count;
  struct board_window windows[kMostWindows];
  receive(g_requests, &count, sizeof(count));
  if (count > kMostWindows) die("too many windows");
  receive(g_requests, windows, count * sizeof(windows[0]));
  for (uintptr_t i = 0; i < count; ++i) {
    MemoryRegion* region = calloc(1, kMemoryRegionBytes);
    memory_region_init_io(region, NULL, &kOperations, (void*)i, "board", windows[i].size);
    memory_region_add_subregion_overlap(get_system_memory(), windows[i].address, region, 1);
  }
  qemu_set_fd_handler(g_levels_socket, levels_changed, NULL, NULL);
}

// Names the first function that this QEMU does not have. NULL: all are there.
static const char* missing_function(void) {
#define CHECK(name) \
  if (name == NULL) return #name
  CHECK(get_system_memory);
  CHECK(memory_region_init_io);
  CHECK(memory_region_add_subregion_overlap);
  CHECK(memory_region_get_fd);
  CHECK(host_memory_backend_get_memory);
  CHECK(object_get_objects_root);
  CHECK(object_resolve_path_component);
  CHECK(object_resolve_path_type);
  CHECK(qdev_get_gpio_in);
  CHECK(qemu_set_irq);
  CHECK(qemu_set_fd_handler);
  CHECK(cpu_disable_ticks);
  CHECK(cpu_enable_ticks);
#undef CHECK
  return NULL;
}

__attribute__((constructor)) static void load(void) {
  static Notifier notifier = {.notify = machine_is_ready};
  // Other programs that inherit LD_PRELOAD.
  if (qemu_add_machine_init_done_notifier == NULL || getenv("BOARD_SOCKET") == NULL) return;
  const char* missing = missing_function();
  if (missing != NULL) {
    fprintf(stderr, "qemu_npu: this QEMU exports no %s; Debian's 7.2 and 11.1 do\n", missing);
    _exit(1);
  }
  qemu_add_machine_init_done_notifier(&notifier);
}
