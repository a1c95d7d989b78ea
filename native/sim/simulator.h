// A simulator of the RK3588 NPU's registers: it gets command streams and memory, nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "chip/chip_gen.h"
#include "span.h"

namespace rk3588::sim {

// One mapped region of device memory; regions do not overlap and lie below 2^32.
struct Region {
  std::string name;
  uint64_t address = 0;
  Span<uint8_t> bytes;
  // Bytes from the start that hold content before the run. Reading beyond them what no task of the
  // run has written is a fault (checked in steps of 16 bytes). Default: everything holds content.
  uint64_t initial_bytes = UINT64_MAX;
};

struct Task {
  uint64_t regcmd = 0;
  uint32_t regcmd_count = 0;
  std::string layer;  // for messages only
};

struct Job {
  std::vector<Task> tasks;
};

// Instruction set of the vectorised kernels. Results are identical for all of them.
enum class Isa { kAuto, kPortable, kAvx2, kAvx512Vnni, kNeon, kNeonDot };

// The kernel driver whose rules the run keeps to (docs/simulator.md).
enum class Kernel {
  kNone,    // as `chained` says
  kRocket,  // mainline: a kick per task, completion by the DPU's interrupt only
  kRknpu,   // vendor's: a kick per job, completion by the last task's interrupt
};

// The output element whose way through the stages is reported: by its device address in every task
// that writes it, or in one task by its place in the task's output.
struct Probe {
  static constexpr int kAnyTask = -1;
  uint64_t address = 0;  // only with kAnyTask
  int task = kAnyTask;   // counts over all tasks of the run
  uint32_t channel = 0;
  uint32_t y = 0;
  uint32_t x = 0;
};

struct Settings {
  Chip chip = kRk3588;
  // true: one kick per job, the PC follows the links in the tails (a job that lists one task only
  // runs until a tail without a link); false: a kick per task
  bool chained = false;
  unsigned threads = 0;           // 0: one per hardware thread, at most 8
  bool dry_run = false;           // decode and check every task, compute nothing
  bool plain = false;             // the slow, literal path: the oracle of the vectorised one
  Kernel kernel = Kernel::kNone;  // overrides `chained`
  // Deviations that programs of other compilers have and that leave no doubt about what a task
  // computes are reported instead of ending the run.
  bool lenient = false;
  bool counters = false;     // RunFacts::tasks
  bool accesses = false;     // RunFacts::accesses
  bool keeps_state = false;  // registers, tables and CBUF outlive a run, as they do a kick
  // A worse chip, for tests ("dense:bs:ties_up,..."; sim/deviation.h). Simulator's constructor
  // throws std::invalid_argument for a name that it does not know.
  std::string deviations;
  std::optional<Probe> probe;  // RunFacts::writes
  Isa isa = Isa::kAuto;  // throws std::invalid_argument if the processor or the build lacks it
};

// The best instruction set of this processor that is compiled in; never kAuto.
Isa best_isa();

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

// Bytes that each reader of DPU_RDMA fetches.
struct ReaderBytes {
  uint64_t mrdma = 0;  // the main operand, or even surfaces of a combined one
  uint64_t brdma = 0;  // operands of BS
  uint64_t nrdma = 0;  // operands of BN
  uint64_t erdma = 0;  // the operand of EW

  uint64_t all() const { return mrdma + brdma + nrdma + erdma; }
};

// Bytes that one task moved and products that it computed. Cycles are estimates by the known cost
// formulas.
struct TaskCounters {
  int task = 0;
  std::string layer;
  uint32_t enable_mask = 0;
  uint64_t macs = 0;
  uint64_t feature_bytes = 0;  // read by CNA or PPU_RDMA
  uint64_t weight_bytes = 0;
  ReaderBytes operands;
  uint64_t written_bytes = 0;
  uint32_t data_banks = 0;
  uint32_t weight_banks = 0;
  uint64_t cbuf_data_bytes = 0;
  uint64_t cbuf_weight_bytes = 0;
  uint64_t npu_cycles = 0;
  uint64_t ddr_cycles = 0;
};

// How the element of Settings::probe got its value in one task.
// Far more than tasks of any real program write one element.
inline constexpr size_t kMostWrites = 256;

struct ElementWrite {
  int task = 0;
  std::string layer;
  uint64_t address = 0;
  uint32_t channel = 0;
  uint32_t y = 0;
  uint32_t x = 0;
  std::vector<std::pair<std::string, double>> values;  // stage by stage
  double output = 0;
  std::vector<std::pair<std::string, uint32_t>> registers;  // written ones of the task's groups
  std::vector<std::pair<std::string, int>> groups;          // which of the two each block used
};

// Device addresses [begin, end).
struct AddressRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Addresses that one task reads and writes: feature maps surface by surface, rows with the gaps
// between them.
struct TaskAccess {
  std::vector<AddressRange> reads;
  std::vector<AddressRange> writes;
  // How many of `writes`, from the first, hold channels that the task was asked for; the others
  // only complete a group.
  size_t real_writes = 0;
  bool inherits = false;      // it needs registers that only tasks before it wrote
  bool reuses_cbuf = false;   // it needs what the task before it left in CBUF
  bool loads_tables = false;  // it writes all entries of both lookup tables
  bool looks_up = false;      // it needs the tables that a task before it wrote
};

// A run's report, besides the memory it leaves.
struct RunFacts {
  std::vector<TaskCounters> tasks;   // only with Settings::counters
  std::vector<TaskAccess> accesses;  // only with Settings::accesses
  // The last kMostWrites tasks that wrote the element of Settings::probe, and how many more did.
  std::vector<ElementWrite> writes;
  uint64_t earlier_writes = 0;
  std::vector<std::string> complaints;  // lenient mode: what would have been faults
};

class Simulator {
 public:
  // Throws std::invalid_argument for a chip that it cannot simulate.
  explicit Simulator(Settings settings = {});
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  // Runs the jobs in order. Register groups persist between tasks and jobs of one run, and between
  // runs with Settings::keeps_state. Throws Fault.
  RunFacts run(Span<const Region> memory, Span<const Job> jobs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rk3588::sim
