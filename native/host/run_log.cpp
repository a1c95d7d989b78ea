#include "host/run_log.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

namespace rk3588 {
namespace {

std::atomic<bool> g_enabled{false};
std::mutex g_mutex;
std::vector<RunEntry> g_entries;
size_t g_capacity = 0;

}  // namespace

void start_run_log(size_t capacity) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_entries.clear();
  g_entries.reserve(capacity);
  g_capacity = capacity;
  g_enabled.store(true, std::memory_order_release);
}

std::vector<RunEntry> take_run_log() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_enabled.store(false, std::memory_order_release);
  g_capacity = 0;
  return std::exchange(g_entries, {});
}

bool run_log_enabled() { return g_enabled.load(std::memory_order_acquire); }

void add_to_run_log(const std::string& name, const RunTimes& times) {
  RunEntry entry{};
  entry.times = times;
  const size_t length = std::min(name.size(), RunEntry::kNameBytes - 1);
  std::memcpy(entry.name, name.data(), length);
  entry.name[length] = '\0';
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (g_entries.size() < g_capacity) g_entries.push_back(entry);
}

}  // namespace rk3588
