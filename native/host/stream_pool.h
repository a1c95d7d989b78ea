// Shares a limited number of open files among the streams of a process, in turn.
#pragma once

#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace rk3588 {

template <typename File>
class StreamPool {
 public:
  // One of `limit` files of `node`, opened when it is first needed and closed with its last user.
  std::shared_ptr<File> next(const std::string& node, size_t limit,
                             const std::function<std::shared_ptr<File>()>& open) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // A forked child must not use its parent's files.
    Slots& slots = slots_[{getpid(), node, limit}];
    slots.files.resize(limit);
    std::weak_ptr<File>& slot = slots.files[slots.turn++ % limit];
    std::shared_ptr<File> file = slot.lock();
    if (file == nullptr) {
      file = open();
      slot = file;
    }
    return file;
  }

 private:
  struct Slots {
    size_t turn = 0;
    std::vector<std::weak_ptr<File>> files;
  };
  std::mutex mutex_;
  std::map<std::tuple<pid_t, std::string, size_t>, Slots> slots_;
};

}  // namespace rk3588
