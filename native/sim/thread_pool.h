// A few worker threads that run index ranges; started at the first parallel run, kept until
// destruction.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rk3588::sim {

class ThreadPool {
 public:
  // `threads` including the caller's; 0: one per hardware thread, at most 8.
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned threads() const { return threads_; }
  // Calls work(0) .. work(count - 1), each once, in any order and on any thread; returns when all
  // are done. `work` must not throw.
  void run(size_t count, const std::function<void(size_t)>& work);

 private:
  void worker();
  void drain();

  unsigned threads_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(size_t)>* work_ = nullptr;
  size_t count_ = 0;
  std::atomic<size_t> next_{0};
  size_t active_ = 0;
  uint64_t generation_ = 0;
  bool stop_ = false;
};

}  // namespace rk3588::sim
