// A few worker threads that run index ranges; started at the first parallel run, kept until
// destruction.
#pragma once

#include <algorithm>
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
  explicit ThreadPool(unsigned threads)
      : threads_(threads != 0
                     ? threads
                     : std::clamp(std::thread::hardware_concurrency(), 1u, kMaxAutoThreads)) {}
  ~ThreadPool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : workers_) thread.join();
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned threads() const { return threads_; }
  // Calls work(0) .. work(count - 1), each once, in any order and on any thread; returns when all
  // are done. `work` must not throw.
  void run(size_t count, const std::function<void(size_t)>& work) {
    if (threads_ == 1 || count <= 1) {
      for (size_t i = 0; i < count; ++i) work(i);
      return;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (workers_.size() + 1 < threads_) workers_.emplace_back(&ThreadPool::worker, this);
      work_ = &work;
      count_ = count;
      next_.store(0);
      active_ = workers_.size();
      ++generation_;
    }
    wake_.notify_all();
    drain();
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [&] { return active_ == 0; });
  }

 private:
  // One layer rarely has work for more, and waking threads costs more than they save then.
  static constexpr unsigned kMaxAutoThreads = 8;

  void worker() {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      lock.unlock();
      drain();
      lock.lock();
      if (--active_ == 0) done_.notify_one();
    }
  }
  void drain() {
    for (size_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) (*work_)(i);
  }

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
