// Plays a chip's NPU cores for a guest of QEMU (docs/emulated_board.md).
//
//   npu_process SOCKET [FAULTS [CHIP]]      FAULTS: see faults.h; CHIP: rk3588; log on stderr
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "core.h"
#include "protocol.h"

namespace rk3588::board {
namespace {

// One register with two lines per core (compatible "snps,dw-high-reset").
constexpr uint64_t kResetAddress = 0xfd7c0000;
constexpr uint32_t kResetLines = 3;
constexpr unsigned kResetBitsPerCore = 2;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void transmit(int descriptor, const void* data, size_t size) {
  if (write(descriptor, data, size) != static_cast<ssize_t>(size)) fail("QEMU is gone");
}

int listen_at(const std::string& path) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    fail(path);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  unlink(path.c_str());
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, 2) != 0) {
    fail(path);
  }
  return listener;
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == nullptr) {
    fail("no RAM from QEMU");
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(descriptor));
  return descriptor;
}

class Board {
 public:
  Board(const Layout& layout, const std::string& path, const std::string& faults)
      : layout_(layout) {
    const int listener = listen_at(path);
    requests_ = accept(listener, nullptr, nullptr);
    lines_ = accept(listener, nullptr, nullptr);
    close(listener);
    ram_ = std::make_unique<GuestRam>(receive_descriptor(requests_));
    state_.ram = ram_.get();
    state_.faults = FaultFile(faults);
    state_.lines_changed = [this] { send_lines(); };
    for (unsigned i = 0; i < layout.chip.cores; ++i) {
      cores_.push_back(std::make_unique<Core>(state_, layout, i));
    }
    send_windows();
  }

  // Until QEMU ends.
  void serve() {
    board_request request;
    while (read(requests_, &request, sizeof(request)) == sizeof(request)) {
      const std::lock_guard<std::mutex> lock(state_.mutex);
      const uint64_t value = handle(request);
      const board_answer answer = answer_with(value);
      transmit(requests_, &answer, sizeof(answer));
    }
  }

 private:
  void send_windows() {
    std::vector<board_window> windows;
    for (unsigned i = 0; i < cores_.size(); ++i) {
      windows.push_back({layout_.address + i * layout_.core_bytes, layout_.core_bytes});
    }
    windows.push_back({kResetAddress, kPageBytes});
    const uint64_t count = windows.size();
    transmit(requests_, &count, sizeof(count));
    transmit(requests_, windows.data(), count * sizeof(windows[0]));
  }

  uint64_t handle(const board_request& request) {
    const auto offset = static_cast<uint32_t>(request.offset);
    const auto value = static_cast<uint32_t>(request.value);
    const bool is_read = request.operation == kBoardRead;
    if (request.window < cores_.size()) {
      Core& core = *cores_[request.window];
      if (is_read) return core.read(offset);
      core.write(offset, value);
    } else if (offset == 0) {
      if (is_read) return resets_;
      set_resets(value);
    }
    return 0;
  }

  void set_resets(uint32_t value) {
    for (unsigned i = 0; i < cores_.size(); ++i) {
      const uint32_t lines = kResetLines << (kResetBitsPerCore * i);
      if ((value & lines) != 0 && (resets_ & lines) == 0) cores_[i]->reset();
    }
    resets_ = value;
  }

  board_answer answer_with(uint64_t value) {
    board_answer answer{};
    answer.value = value;
    answer.sequence = ++sequence_;
    for (unsigned i = 0; i < cores_.size(); ++i) {
      answer.levels |= (cores_[i]->interrupt() ? 1u : 0u) << i;
      answer.computes |= cores_[i]->computes() ? 1u : 0u;
    }
    return answer;
  }

  // With the mutex held.
  void send_lines() {
    const board_answer answer = answer_with(0);
    if (write(lines_, &answer, sizeof(answer)) != sizeof(answer)) log_line("QEMU is gone");
  }

  const Layout& layout_;
  int requests_ = -1;
  int lines_ = -1;
  std::unique_ptr<GuestRam> ram_;
  BoardState state_;
  std::vector<std::unique_ptr<Core>> cores_;
  uint32_t resets_ = 0;
  uint64_t sequence_ = 0;
};

const Layout& layout_of(const std::string& chip) {
  for (const Layout* layout : {&kRk3588Layout, &kRk3576Layout}) {
    if (layout->chip.name == chip) return *layout;
  }
  throw std::runtime_error("no chip " + chip);
}

}  // namespace
}  // namespace rk3588::board

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: npu_process SOCKET [FAULTS [CHIP]]\n");
    return 2;
  }
  try {
    rk3588::board::Board board(rk3588::board::layout_of(argc > 3 ? argv[3] : "rk3588"), argv[1],
                               argc > 2 ? argv[2] : "");
    rk3588::board::log_line("connected");
    board.serve();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "npu_process: %s\n", error.what());
    return 1;
  }
  std::fflush(stderr);
  std::_Exit(0);  // a core that hangs has a thread that nobody can join
}
