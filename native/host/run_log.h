// When the phases of each run happened, for bench and trace. Off until started; then a run writes
// one entry into memory that was allocated at the start, until that is full.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

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

struct RunEntry {
  static constexpr size_t kNameBytes = 64;
  char name[kNameBytes];  // of the program, cut if longer, always terminated
  RunTimes times;
};

// Nanoseconds of CLOCK_MONOTONIC, the clock of all time-outs, too.
inline int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Forgets earlier entries and keeps up to `capacity` new ones.
void start_run_log(size_t capacity);
// Stops and returns the entries in the order in which the runs ended.
std::vector<RunEntry> take_run_log();

bool run_log_enabled();
void add_to_run_log(const std::string& name, const RunTimes& times);

}  // namespace rk3588
