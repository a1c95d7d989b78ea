#include "sim/thread_pool.h"

#include <algorithm>

namespace rk3588::sim {
namespace {

// One layer rarely has work for more, and waking threads costs more than they save then.
constexpr unsigned kMaxAutoThreads = 8;

}  // namespace

ThreadPool::ThreadPool(unsigned threads)
    : threads_(threads != 0
                   ? threads
                   : std::clamp(std::thread::hardware_concurrency(), 1u, kMaxAutoThreads)) {}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : workers_) thread.join();
}

void ThreadPool::drain() {
  for (size_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) (*work_)(i);
}

void ThreadPool::worker() {
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

void ThreadPool::run(size_t count, const std::function<void(size_t)>& work) {
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

}  // namespace rk3588::sim
