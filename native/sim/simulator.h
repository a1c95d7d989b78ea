// A simulator of the RK3588 NPU's registers: it gets command streams and memory, nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "span.h"

namespace rk3588::sim {

// One mapped region of device memory; regions do not overlap.
struct Region {
  std::string name;
  uint64_t address = 0;
  Span<uint8_t> bytes;
};

struct Task {
  uint64_t regcmd = 0;
  uint32_t regcmd_count = 0;
  std::string layer;  // for messages only
};

struct Job {
  std::vector<Task> tasks;
};

struct Settings {
  bool chained = false;  // true: one kick per job, the PC follows the links in the tails; false: a kick per task
  unsigned threads = 0;  // 0: one per hardware thread
};

// Any deviation from what a correct program does. what() is the whole sentence.
class Fault : public std::runtime_error {
 public:
  Fault(std::string kind, std::string unit, std::string reg, int task, std::string layer,
        const std::string& message)
      : std::runtime_error(message),
        kind(std::move(kind)),
        unit(std::move(unit)),
        reg(std::move(reg)),
        task(task),
        layer(std::move(layer)) {}
  std::string kind;  // "UnmappedAccess", "UnsupportedFeature", ...
  std::string unit;  // "CNA", "DPU", ...
  std::string reg;   // "CNA.CBUF_CON0" or ""
  int task;          // index over all tasks of the run
  std::string layer;
};

class Simulator {
 public:
  explicit Simulator(Settings settings = {});
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  // Runs the jobs in order. Register groups persist between tasks and jobs of one run. Throws Fault.
  void run(Span<const Region> memory, Span<const Job> jobs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rk3588::sim
