#include "host/run_stats.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <tuple>

#include "host/private_files.h"

namespace rk3588 {
namespace {

constexpr double kNsPerSecond = 1e9;
constexpr double kNsPerMs = 1e6;
constexpr int64_t kPublicationNs = 1'000'000'000;

// The format is UTF-8 with three escapes; names come from models, so what is not printable ASCII
// is replaced.
std::string label_value(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    result += c >= ' ' && c <= '~' ? c : '?';
  }
  return result;
}

std::string braces(const std::string& first, const std::string& second) {
  if (first.empty() && second.empty()) return {};
  return "{" + first + (first.empty() || second.empty() ? "" : ",") + second + "}";
}

std::string seconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9f", static_cast<double>(ns) / kNsPerSecond);
  return text;
}

class PrometheusText {
 public:
  explicit PrometheusText(const std::string& labels) : labels_(labels) {}

  void begin(const char* name, const char* help) {
    name_ = std::string("rk3588_delegate_") + name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " counter\n";
  }
  void sample(const std::string& labels, const std::string& value) {
    text_ += name_ + braces(labels_, labels) + " " + value + "\n";
  }
  std::string text() const { return text_; }

 private:
  std::string labels_;
  std::string name_;
  std::string text_;
};

struct Metric {
  const char* name;
  const char* help;
  Count count;
};

constexpr Metric kPerProgram[] = {
    {"runs_total", "Runs of a partition on the device that gave results.", Count::kRuns},
    {"run_errors_total", "Runs of a partition that failed.", Count::kErrors},
    {"run_repeats_total", "Runs repeated because the driver had reset the NPU.", Count::kRepeats},
    {"cpu_runs_total", "Runs of a partition's nodes on the CPU, for shapes that do not compile.",
     Count::kCpuRuns},
    {"in_place_tensors_total", "Tensors that the device read or wrote in memory that others share.",
     Count::kInPlace},
};

struct Phase {
  const char* name;
  Count count;
};

constexpr Phase kPhases[] = {
    {"input_conversion", Count::kInputConversion},
    {"device", Count::kDevice},
    {"output_conversion", Count::kOutputConversion},
    {"cpu", Count::kCpu},
};

uint64_t value_of(const Counts& counts, Count count) { return counts[static_cast<size_t>(count)]; }

std::string program_labels(const ProgramKey& key) {
  return "device=\"" + label_value(key.device) + "\",program=\"" + label_value(key.program) +
         "\",output=\"" + label_value(key.output) + "\"";
}

std::string milliseconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f ms", static_cast<double>(ns) / kNsPerMs);
  return text;
}

constexpr mode_t kFolderMode = 0755;
constexpr mode_t kFileMode = 0666;  // but for the umask

// The file of this process, also after a fork.
std::string stats_path(const std::string& folder) {
  return folder + "/" + std::to_string(getpid()) + ".prom";
}

// Makes the folder if its parent is there.
void write_stats_file(const std::string& folder, const std::string& text) {
  std::string problem;
  if (mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    problem = folder + ": " + std::strerror(errno);
  } else {
    try {
      return replace_file(stats_path(folder), text, kFileMode, false);
    } catch (const std::runtime_error& error) {
      problem = error.what();
    }
  }
  throw std::runtime_error("option stats_dir: " + problem +
                           "; it has to be a folder that this process may write, or a new one in "
                           "such a folder; stats_dir=off publishes nothing");
}

std::atomic<bool> g_logs{false};
std::mutex g_log_mutex;
std::vector<RunEntry> g_entries;
size_t g_capacity = 0;

}  // namespace

void RunCounters::add_run(const RunTimes& times) {
  add(Count::kRuns, 1);
  add(Count::kInputConversion, static_cast<uint64_t>(times.converted - times.start));
  add(Count::kDevice, static_cast<uint64_t>(times.done - times.converted));
  add(Count::kOutputConversion, static_cast<uint64_t>(times.end - times.done));
  if (times.repeats > 0) add(Count::kRepeats, times.repeats);
  if (times.in_place > 0) add(Count::kInPlace, times.in_place);
}

Counts RunCounters::counts() const {
  Counts result{};
  for (size_t i = 0; i < kCountCount; ++i) {
    result[i] = counts_[i].load(std::memory_order_relaxed);
  }
  return result;
}

bool ProgramKey::operator<(const ProgramKey& other) const {
  return std::tie(device, program, output) < std::tie(other.device, other.program, other.output);
}

std::shared_ptr<RunStatsHome> RunStatsHome::of_process() {
  static const auto home = std::make_shared<RunStatsHome>();
  return home;
}

std::shared_ptr<RunCounters> RunStatsHome::counters(const ProgramKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool is_full = programs_.size() >= kMostPrograms && programs_.count(key) == 0;
  const ProgramKey others{"", "others", ""};
  std::shared_ptr<RunCounters>& found = programs_[is_full ? others : key];
  if (found == nullptr) found = std::make_shared<RunCounters>();
  return found;
}

RunStats RunStatsHome::take() const {
  RunStats stats{inferences.load(std::memory_order_relaxed),
                 between_ns.load(std::memory_order_relaxed),
                 verified.load(std::memory_order_relaxed),
                 differences.load(std::memory_order_relaxed),
                 {}};
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, counters] : programs_) stats.programs.push_back({key, counters->counts()});
  return stats;
}

void RunStatsHome::publish_in(const std::string& folder) {
  const std::shared_ptr<RunStatsHome> home = of_process();
  {
    const std::lock_guard<std::mutex> lock(home->file_mutex_);
    if (folder != home->folder_) home->remove_file();
    home->folder_ = folder;
    home->write_file();
  }
  home->next_publication_.store(monotonic_ns() + kPublicationNs, std::memory_order_relaxed);
  // At the end of the process, whoever still holds the counters then.
  struct Remover {
    std::shared_ptr<RunStatsHome> home;
    ~Remover() {
      home->next_publication_.store(kNever, std::memory_order_relaxed);
      const std::lock_guard<std::mutex> lock(home->file_mutex_);
      home->remove_file();
    }
  };
  static const Remover remover{home};
}

void RunStatsHome::publish(int64_t now) noexcept {
  int64_t due = next_publication_.load(std::memory_order_relaxed);
  if (now < due || !next_publication_.compare_exchange_strong(due, now + kPublicationNs)) return;
  const std::unique_lock<std::mutex> lock(file_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  try {
    write_file();
  } catch (const std::exception&) {  // run_ended says why nothing is said
  }
}

void RunStatsHome::write_file() {
  if (folder_.empty()) return;
  write_stats_file(folder_, prometheus_text(take(), "pid=\"" + std::to_string(getpid()) + "\""));
}

void RunStatsHome::remove_file() noexcept {
  if (!folder_.empty()) unlink(stats_path(folder_).c_str());
  folder_.clear();
}

void KernelRuns::begin() {
  if (is_first_) {
    home_->inferences.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const int64_t passed = monotonic_ns() - clock_->last_end.load(std::memory_order_relaxed);
  home_->between_ns.fetch_add(static_cast<uint64_t>(passed), std::memory_order_relaxed);
}

void KernelRuns::end() {
  const int64_t now = monotonic_ns();
  home_->run_ended(now);
  clock_->last_end.store(now, std::memory_order_relaxed);
}

void start_run_log(size_t capacity) {
  const std::lock_guard<std::mutex> lock(g_log_mutex);
  g_entries.clear();
  g_entries.reserve(capacity);
  g_capacity = capacity;
  g_logs.store(true, std::memory_order_release);
}

std::vector<RunEntry> take_run_log() {
  const std::lock_guard<std::mutex> lock(g_log_mutex);
  g_logs.store(false, std::memory_order_release);
  g_capacity = 0;
  return std::exchange(g_entries, {});
}

bool run_log_enabled() { return g_logs.load(std::memory_order_acquire); }

void add_to_run_log(const std::string& name, const RunTimes& times) {
  RunEntry entry{};
  entry.times = times;
  const size_t length = std::min(name.size(), RunEntry::kNameBytes - 1);
  std::memcpy(entry.name, name.data(), length);
  entry.name[length] = '\0';
  const std::lock_guard<std::mutex> lock(g_log_mutex);
  if (g_entries.size() < g_capacity) g_entries.push_back(entry);
}

std::string prometheus_text(const RunStats& stats, const std::string& labels) {
  PrometheusText text(labels);
  text.begin("inferences_total", "Inferences begun, each graph of each interpreter by itself.");
  text.sample("", std::to_string(stats.inferences));
  text.begin("between_seconds_total",
             "Time between the partitions of an inference: nodes on the CPU and the runtime.");
  text.sample("", seconds(stats.between_ns));
  text.begin("verified_total", "Runs compared with the simulator (option verify).");
  text.sample("", std::to_string(stats.verified));
  text.begin("differences_total", "Compared runs whose results differed.");
  text.sample("", std::to_string(stats.differences));
  for (const Metric& metric : kPerProgram) {
    text.begin(metric.name, metric.help);
    for (const ProgramStats& program : stats.programs) {
      text.sample(program_labels(program.key),
                  std::to_string(value_of(program.counts, metric.count)));
    }
  }
  text.begin("phase_seconds_total", "Time of a partition's runs by phase.");
  for (const ProgramStats& program : stats.programs) {
    for (const Phase& phase : kPhases) {
      text.sample(program_labels(program.key) + ",phase=\"" + phase.name + "\"",
                  seconds(value_of(program.counts, phase.count)));
    }
  }
  return text.text();
}

std::string stats_line(const RunStats& stats) {
  Counts sums{};
  for (const ProgramStats& program : stats.programs) {
    for (size_t i = 0; i < kCountCount; ++i) sums[i] += program.counts[i];
  }
  const auto sum = [&sums](Count count) { return value_of(sums, count); };
  if (sum(Count::kRuns) + sum(Count::kErrors) + sum(Count::kCpuRuns) == 0) return {};
  const auto some = [](uint64_t count, const std::string& noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
  };
  return "this process so far: " + some(stats.inferences, "inference") + ", " +
         some(sum(Count::kRuns), "run") + " of partitions: " +
         milliseconds(sum(Count::kInputConversion) + sum(Count::kOutputConversion)) +
         " in conversion, " + milliseconds(sum(Count::kDevice)) + " on the device, " +
         milliseconds(stats.between_ns) + " between partitions; " +
         some(sum(Count::kErrors), "error") + ", " + some(sum(Count::kRepeats), "repeat") +
         " after a reset, " + some(sum(Count::kCpuRuns), "run") + " on the CPU";
}

}  // namespace rk3588
