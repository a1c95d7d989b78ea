#include "rocket/keeper.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "host/library_path.h"
#include "rocket/keeper_process.h"

namespace rk3588 {
namespace {

constexpr long kCloseRange = 436;  // SYS_close_range, which older headers lack
constexpr size_t kStackBytes = 32u << 10;
constexpr char kName[] = "rk3588-keeper";

// Asked for while the library is loaded: by then its path may be relative, and the folder may
// change. Never destroyed: threads open files while a process ends.
const std::string& library() {
  static const std::string* path = std::make_unique<std::string>(library_path()).release();
  return *path;
}
[[maybe_unused]] const std::string& g_library = library();

struct alignas(16) Stack {
  std::array<char, kStackBytes> bytes;
  void* top() { return bytes.data() + bytes.size(); }
};

// Shared by this process with the two on the way to the keeper. This one stands still until the
// last one is executed: they run on memory of their own, but for errno.
struct Launch {
  const char* path;
  int socket;
  int error = 0;
  const char* call = "";
  Stack stacks[2];

  int fail(const char* what) {
    error = errno;
    call = what;
    return 1;
  }
};

// The keeper before it is executed. It has no descriptor but its socket, so that nobody waits for a
// pipe of this process, and no folder that cannot be unmounted.
int execute(void* argument) {
  Launch& launch = *static_cast<Launch*>(argument);
  if (launch.socket != 0 && dup2(launch.socket, 0) != 0) return launch.fail("dup2");
  if (fcntl(0, F_SETFD, 0) != 0) return launch.fail("fcntl");
  if (syscall(kCloseRange, 1u, ~0u, 0u) != 0) return launch.fail("close_range");
  if (chdir("/") != 0) return launch.fail("chdir");
  char name[sizeof(kName)];
  std::memcpy(name, kName, sizeof(kName));
  char* const arguments[] = {name, nullptr};
  char* const environment[] = {nullptr};
  execve(launch.path, arguments, environment);
  return launch.fail("execve");
}

// A child of no signal: no host that waits for its own children sees it. Shares memory, as
// posix_spawn's children do: nothing of this process is copied.
pid_t start_on(Stack& stack, int (*body)(void*), Launch* launch) {
  return clone(body, stack.top(), CLONE_VM | CLONE_VFORK, launch);
}

// Ends at once, so that the keeper is nobody's child here. In a session of its own no signal to the
// group of this process reaches it.
int leave(void* argument) {
  Launch& launch = *static_cast<Launch*>(argument);
  if (setsid() < 0) return launch.fail("setsid");
  if (start_on(launch.stacks[1], &execute, &launch) < 0) return launch.fail("clone");
  return 0;
}

// With all signals blocked, now and in the keeper.
void run(Launch* launch) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = start_on(launch->stacks[0], &leave, launch);
  if (child < 0) launch->fail("clone");
  while (child > 0 && waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

bool Keeper::is_mine() const noexcept { return owner_ == getpid(); }

void Keeper::keep(int descriptor) {
  if (!is_mine()) {
    stop();  // only the end that a forked child inherited
    owner_ = getpid();
    files_ = 0;
  }
  if (files_++ == 0) start();
  if (socket_ >= 0 && !send(descriptor, true)) stop();
}

void Keeper::let_go(int descriptor) noexcept {
  if (!is_mine()) return;
  if (socket_ >= 0) send(descriptor, false);
  if (--files_ == 0) stop();
}

std::string Keeper::take_problem() {
  if (problem_.empty() || std::exchange(is_said_, true)) return {};
  return "no keeper: " + problem_ +
         ": if this process dies while a model runs, the driver rocket may crash; the "
         "environment variable RK3588_KEEPER=off asks for none";
}

void Keeper::start() {
  const char* wanted = secure_getenv("RK3588_KEEPER");
  if (wanted != nullptr && std::strcmp(wanted, "off") == 0) return;
  if (!RK3588_HAS_KEEPER) {
    problem_ = "it is not made for this processor";
    return;
  }
  if (owner_ == 1) {
    problem_ = "the kernel ends it with this process, the first one of its container";
    return;
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    problem_ = std::string("socketpair: ") + std::strerror(errno);
    return;
  }
  const auto launch = std::make_unique<Launch>();
  launch->path = library().c_str();
  launch->socket = ends[1];
  run(launch.get());
  close(ends[1]);
  socket_ = ends[0];
  if (launch->error == 0) return;
  problem_ = launch->call + (" (" + library() + "): ") + std::strerror(launch->error);
  stop();
}

void Keeper::stop() noexcept {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

// Never waits: a keeper that was stopped or killed is none.
bool Keeper::send(int descriptor, bool is_kept) const noexcept {
  KeeperMessage message{descriptor};
  struct iovec part{&message, sizeof(message)};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (is_kept) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    struct cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &descriptor, sizeof(descriptor));
  }
  return sendmsg(socket_, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(message);
}

}  // namespace rk3588
