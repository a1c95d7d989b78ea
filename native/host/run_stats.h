// What runs of this process took. Counters of the delegate's kernels, which only grow, for
// delegate.stats(), the log and monitoring. One block of counters per program and device, shared by
// all interpreters that run it, kept when they are gone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "host/device.h"

namespace rk3588 {

// Times of one run in nanoseconds of CLOCK_MONOTONIC.
struct RunTimes {
  int64_t start;
  int64_t converted;  // inputs are in the device's layout and synchronised
  int64_t submitted;  // the driver has taken the jobs; 0 where the device does not say
  int64_t done;       // the device has finished and its outputs are visible to the CPU
  int64_t end;        // outputs are in the host's layout
  uint32_t repeats;   // because the driver interrupted it
  uint32_t in_place;  // tensors that the device read or wrote in memory that others share
};

// The counters of a block; times in nanoseconds.
enum class Count : size_t {
  kRuns,              // that gave results, on the device
  kErrors,            // that gave none
  kRepeats,           // done a second time because the driver had reset the NPU
  kCpuRuns,           // of the partition's nodes on the CPU, for shapes that do not compile
  kInPlace,           // tensors that the device read or wrote in memory that others share
  kInputConversion,   // time, of runs that gave results, as all below
  kDevice,            // submit and wait
  kOutputConversion,  // time
  kCpu,               // time of kCpuRuns
};
inline constexpr size_t kCountCount = 9;

using Counts = std::array<uint64_t, kCountCount>;

// Written by any number of threads at once; each counter by itself is exact.
class RunCounters {
 public:
  void add(Count count, uint64_t value) {
    counts_[static_cast<size_t>(count)].fetch_add(value, std::memory_order_relaxed);
  }
  void add_run(const RunTimes& times);
  Counts counts() const;

 private:
  std::array<std::atomic<uint64_t>, kCountCount> counts_{};
};

// Whose counters: `output` is the name of the first tensor that the program gives, which tells
// programs of different models apart.
struct ProgramKey {
  std::string device;
  std::string program;
  std::string output;
  bool operator<(const ProgramKey& other) const;
};

struct ProgramStats {
  ProgramKey key;
  Counts counts;
};

// One moment's counters. Those of a running thread may be ahead of each other.
struct RunStats {
  uint64_t inferences;  // begun: each graph of each interpreter by itself
  // Between the partitions of one inference: nodes on the CPU and the runtime. What lies before the
  // first and behind the last partition is not seen from here.
  uint64_t between_ns;
  uint64_t verified;     // runs that were compared with the simulator
  uint64_t differences;  // of these, those that differed
  std::vector<ProgramStats> programs;
};

class RunStatsHome {
 public:
  // The process's. Whoever counts holds it, so that it outlives the order of static destruction.
  static std::shared_ptr<RunStatsHome> of_process();

  // The block of a program. Beyond kMostPrograms all further ones share one. Thread-safe.
  std::shared_ptr<RunCounters> counters(const ProgramKey& key);
  RunStats take() const;

  // Keeps the counters in FOLDER/PID.prom from here to the end of the process, for who looks at
  // several: command top, Prometheus's node exporter.
  // Throws std::runtime_error if it cannot be written.
  static void publish_in(const std::string& folder);

  // At the end of every run: brings the file up to date, at most once a second. What fails then is
  // tried again a second later, and no inference fails for it.
  void run_ended(int64_t now) noexcept {
    if (now >= next_publication_.load(std::memory_order_relaxed)) publish(now);
  }

  std::atomic<uint64_t> inferences{0};
  std::atomic<uint64_t> between_ns{0};
  std::atomic<uint64_t> verified{0};
  std::atomic<uint64_t> differences{0};

 private:
  static constexpr size_t kMostPrograms = 1000;
  static constexpr int64_t kNever = INT64_MAX;

  void publish(int64_t now) noexcept;
  void write_file();
  void remove_file() noexcept;

  mutable std::mutex mutex_;
  std::map<ProgramKey, std::shared_ptr<RunCounters>> programs_;
  std::mutex file_mutex_;
  std::string folder_;  // of the file; "": there is none
  std::atomic<int64_t> next_publication_{kNever};
};

// Shared by the kernels of one graph in one interpreter: when the last of them ended. An
// interpreter runs on one thread at a time.
struct GraphClock {
  std::atomic<int64_t> last_end{0};
};

// Counts the runs of one kernel of a graph.
class KernelRuns {
 public:
  // `is_first`: of the graph's kernels, so that its runs are the graph's inferences.
  KernelRuns(std::shared_ptr<GraphClock> clock, bool is_first)
      : clock_(std::move(clock)), is_first_(is_first) {}

  // One run: `body`, and what it throws.
  template <typename Body>
  void count(Body body) {
    begin();
    try {
      body();
    } catch (...) {
      if (counters != nullptr) counters->add(Count::kErrors, 1);
      home_->run_ended(monotonic_ns());
      throw;
    }
    end();
  }

  std::shared_ptr<RunCounters> counters;  // of the last program; nullptr before the first

 private:
  void begin();
  void end();

  std::shared_ptr<RunStatsHome> home_ = RunStatsHome::of_process();
  std::shared_ptr<GraphClock> clock_;
  bool is_first_;
};

// When the phases of each run happened, for bench and trace. Off until started; then a run writes
// one entry into memory that was allocated at the start, until that is full.
struct RunEntry {
  static constexpr size_t kNameBytes = 64;
  char name[kNameBytes];  // of the program, cut if longer, always terminated
  RunTimes times;
};

// Forgets earlier entries and keeps up to `capacity` new ones.
void start_run_log(size_t capacity);
// Stops and returns the entries in the order in which the runs ended.
std::vector<RunEntry> take_run_log();

bool run_log_enabled();
void add_to_run_log(const std::string& name, const RunTimes& times);

// In the text format of Prometheus (version 0.0.4), every metric with HELP and TYPE, seconds as the
// unit of time; `labels` ("pid=\"7\"" or "") are put on all.
std::string prometheus_text(const RunStats& stats, const std::string& labels);

// One line for a log; "" if nothing ran.
std::string stats_line(const RunStats& stats);

}  // namespace rk3588
