// The keeper's own process: this library, executed (Keeper says why). A library has no interpreter,
// so the kernel maps it and goes to its entry: nothing is relocated, and there is no C library.
// The code has its registers, its stack and system calls alone; CMakeLists.txt keeps the
// compiler to that.
#include "rocket/keeper_process.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

// The entry, where the kernel leaves a stack that is aligned and no caller; and a system call,
// which returns a negative errno.
#if defined(__aarch64__)
asm(R"(
  .text
  .globl rk3588_keeper_entry
  .hidden rk3588_keeper_entry
  .type rk3588_keeper_entry, %function
rk3588_keeper_entry:
  mov x29, #0
  mov x30, #0
  b rk3588_keeper_main
  .globl rk3588_keeper_call
  .hidden rk3588_keeper_call
  .type rk3588_keeper_call, %function
rk3588_keeper_call:
  mov x8, x0
  mov x0, x1
  mov x1, x2
  mov x2, x3
  svc #0
  ret
)");
#elif defined(__x86_64__)
asm(R"(
  .text
  .globl rk3588_keeper_entry
  .hidden rk3588_keeper_entry
  .type rk3588_keeper_entry, @function
rk3588_keeper_entry:
  xor %ebp, %ebp
  call rk3588_keeper_main
  .globl rk3588_keeper_call
  .hidden rk3588_keeper_call
  .type rk3588_keeper_call, @function
rk3588_keeper_call:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  syscall
  ret
)");
#endif

#if RK3588_HAS_KEEPER

extern "C" {
__attribute__((visibility("hidden"))) long rk3588_keeper_call(long number, long a, long b, long c);
[[noreturn]] __attribute__((visibility("hidden"))) void rk3588_keeper_main();
}

namespace rk3588 {
namespace {

constexpr int kSocket = 0;

long call(long number, long a, long b = 0, long c = 0) {
  return rk3588_keeper_call(number, a, b, c);
}

template <typename T>
long address(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

// The descriptor that came with a message, or -1.
int received(const msghdr& header) {
  const cmsghdr* control = CMSG_FIRSTHDR(&header);
  if (control == nullptr || control->cmsg_len < CMSG_LEN(sizeof(int))) return -1;
  return *reinterpret_cast<const int*>(CMSG_DATA(control));
}

// False: the descriptor is gone, for want of a number.
bool move_to(int place, int descriptor) {
  if (descriptor == place) return true;
  const bool is_moved = call(__NR_dup3, descriptor, place) == place;
  call(__NR_close, descriptor);
  return is_moved;
}

// Does what it is told until nobody is left who could; returns how many files are kept then.
int serve() {
  int kept = 0;
  for (;;) {
    KeeperMessage message;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec part;
    part.iov_base = &message;
    part.iov_len = sizeof(message);
    msghdr header;
    header.msg_name = nullptr;
    header.msg_namelen = 0;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    header.msg_flags = 0;
    if (call(__NR_recvmsg, kSocket, address(&header)) != sizeof(message)) return kept;
    // Every file has a number of its own, as it has in the other process.
    const int place = message.descriptor + kSocket + 1;
    const int descriptor = received(header);
    if (descriptor < 0) {
      if (call(__NR_close, place) == 0) --kept;
    } else if (move_to(place, descriptor)) {
      ++kept;
    }
  }
}

}  // namespace
}  // namespace rk3588

void rk3588_keeper_main() {
  if (rk3588::serve() > 0) {
    timespec pause;
    pause.tv_sec = rk3588::kKeeperPauseS;
    pause.tv_nsec = 0;
    rk3588::call(__NR_nanosleep, rk3588::address(&pause));
  }
  for (;;) rk3588::call(__NR_exit_group, 0);
}

#endif
