// Keeps the files of this process open for a second after its death.
//
// When a process dies, the kernel closes its files, and closing one while a job runs corrupts the
// driver (RocketFile). A process that is killed cannot wait for its jobs. So a second one, the
// keeper, has the same open files: the driver closes them when both have. It is this library,
// executed by the kernel (keeper_process.cpp): a file that is there wherever the library was
// loaded, that needs no libraries and has no memory of the process that started it. It knows of
// that process's death by the end of the socket between them.
//
// The process is not a child of this one: hosts wait for their own children alone. No signal but
// SIGKILL and SIGSTOP reaches it. It ends a second after this process, or with its last file.
#pragma once

#include <sys/types.h>

#include <string>

namespace rk3588 {

// Not thread-safe.
class Keeper {
 public:
  // Keeps a file beyond this process's death, with a keeper of this process's own. One that cannot
  // be started is no error: what it is for may never happen.
  void keep(int descriptor);
  // Before the file is closed in order.
  void let_go(int descriptor) noexcept;
  // Why files of this process are not kept, once; "" if they are, or if it was said.
  std::string take_problem();

 private:
  bool is_mine() const noexcept;
  void start();
  void stop() noexcept;
  bool send(int descriptor, bool is_kept) const noexcept;

  pid_t owner_ = 0;
  int socket_ = -1;
  int files_ = 0;
  std::string problem_;
  bool is_said_ = false;
};

}  // namespace rk3588
