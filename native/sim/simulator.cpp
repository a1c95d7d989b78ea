#include "sim/simulator.h"

#include <algorithm>
#include <set>

#include "sim/cbuf.h"
#include "sim/deviation.h"
#include "sim/dpu_element.h"
#include "sim/executor.h"
#include "sim/fast.h"
#include "sim/fast_float.h"
#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

// Half as many numbers of 16 bits are whole atoms, too.
void require_whole_atoms(uint32_t channels, const char* what) {
  if (channels > 0 && channels % (2 * kAtomBytes / element_bytes(Element::kFp16)) == 0) return;
  throw std::invalid_argument(std::string("a chip's ") + what + " (" + std::to_string(channels) +
                              ") must be whole atoms of 16 channels");
}

const Settings& checked(const Settings& settings) {
  const Chip& chip = settings.chip;
  if (chip.atom_bytes != kAtomBytes) {
    throw std::invalid_argument("this simulator has atoms of 16 bytes, not of " +
                                std::to_string(chip.atom_bytes));
  }
  require_whole_atoms(chip.dense_kernels, "dense_kernels");
  require_whole_atoms(chip.depthwise_channels, "depthwise_channels");
  require_whole_atoms(chip.input_lanes, "input_lanes");
  // The literal sums of fp16 are exact for so many.
  if (chip.input_lanes > kMostInputLanes) {
    throw std::invalid_argument("a chip's input_lanes must be at most " +
                                std::to_string(kMostInputLanes));
  }
  if (chip.cbuf_entry_bytes == 0 || chip.bus_decibytes_per_cycle == 0 || chip.step_pixels == 0) {
    throw std::invalid_argument("a chip's entries, steps and bus are not 0");
  }
  return settings;
}

std::vector<AddressRange> ranges(const std::vector<AddressPattern>& patterns) {
  std::vector<AddressRange> result;
  for (const AddressPattern& pattern : patterns) {
    if (pattern.extent() != 0) {
      result.push_back({pattern.address, pattern.address + pattern.extent()});
    }
  }
  return result;
}

TaskAccess access_of(const TaskPlan& plan) {
  TaskAccess access{ranges(plan.operands.reads), ranges(plan.writes)};
  const uint64_t lanes = kAtomBytes / element_bytes(plan.dpu.out_element);
  const uint64_t surfaces = (plan.dpu.real_channels + lanes - 1) / lanes;
  access.real_writes = plan.dpu.writes_as_computed()
                           ? std::min<uint64_t>(surfaces, access.writes.size())
                           : access.writes.size();
  access.looks_up = plan.dpu.lut.is_on;
  if (!plan.is_conv) return access;
  access.reuses_cbuf = plan.cna.cbuf.data_reuse || plan.cna.cbuf.weight_reuse;
  for (const AddressRange& range : ranges(plan.feature_reads)) access.reads.push_back(range);
  const WeightBlock& weights = plan.cna.weights;
  access.reads.push_back({weights.address, weights.address + weights.bytes});
  return access;
}

TaskAccess access_of(const PoolingPlan& plan) {
  TaskAccess access{ranges(plan.reads), ranges(plan.writes)};
  access.real_writes = plan.writes.size();
  return access;
}

void count_conv(const TaskPlan& task, TaskCounters* c) {
  const CnaConfig& cna = task.cna;
  const Chip& chip = *cna.chip;
  const uint64_t pixels = uint64_t{cna.out_height} * cna.out_width;
  const uint64_t taps = uint64_t{cna.weights.kh} * cna.weights.kw;
  const uint64_t element = element_bytes(cna.element);
  const uint64_t groups = ceil_div(pixels, chip.step_pixels) * chip.step_pixels;
  if (cna.is_depthwise) {
    c->macs = pixels * taps * cna.feature.channels;
    c->npu_cycles = groups * taps * ceil_div(cna.feature.channels, chip.depthwise_channels);
  } else {
    c->macs = pixels * taps * cna.feature.channels * cna.weights.kernels;
    const uint64_t steps = std::max(taps * ceil_div(cna.feature.channels, chip.input_lanes),
                                    chip.min_dense_steps / element);
    c->npu_cycles = groups * ceil_div(cna.weights.kernels, cna.group()) * steps;
  }
  c->feature_bytes = cna.cbuf.data_reuse ? 0 : task.feature_bytes;
  c->weight_bytes = cna.cbuf.weight_reuse ? 0 : cna.weights.bytes;
  c->data_banks = cna.cbuf.data_banks;
  c->weight_banks = cna.cbuf.weight_banks;
  c->cbuf_data_bytes = task.cbuf_data_bytes;
  c->cbuf_weight_bytes =
      std::min<uint64_t>(cna.weights.bytes, uint64_t{cna.cbuf.weight_banks} * chip.cbuf_bank_bytes);
}

void count(const TaskPlan& task, TaskCounters* c) {
  if (task.is_conv) count_conv(task, c);
  c->operands = task.operands.bytes;
  const DpuConfig& dpu = task.dpu;
  c->written_bytes = uint64_t{dpu.height} * dpu.width * dpu.surfaces() * kAtomBytes;
}

void count(const PoolingPlan& plan, TaskCounters* c) {
  const PoolingConfig& p = plan.config;
  c->feature_bytes = uint64_t{p.in_height} * p.in_width * p.surfaces * kAtomBytes;
  c->written_bytes = uint64_t{p.out_height} * p.out_width * p.surfaces * kAtomBytes;
}

}  // namespace

struct Simulator::Impl {
  explicit Impl(const Settings& s)
      : settings(checked(s)), pool(s.threads), fast(s.isa, pool), chip(s.deviations) {}

  // State of one run.
  struct Run {
    Memory memory;
    RegisterFile registers;
    LutTables tables;
    Cbuf cbuf;
    RunFacts facts;
    LeftBehind left;  // only for a worse chip
    int task = 0;
    Run(Span<const Region> regions, const Chip& chip)
        : memory(regions), registers(registers_of(chip)) {}
  };

  SegmentEnd run_task(Run& run, uint64_t address, uint32_t words, const std::string& layer) {
    const Position where = position(run, layer);
    run.registers.begin_task();
    run.tables.begin_task();
    const SegmentEnd end =
        run_segment(run.memory, run.registers, run.tables, address, words, where);
    if (is_pooling(end.enable_mask, where)) {
      run_pooling_task(run, end.enable_mask, where);
    } else {
      run_dpu_task(run, end.enable_mask, where);
    }
    for (const Block block : kBlocks) {
      if (starts(end.enable_mask, block)) run.registers.advance(block);
    }
    ++run.task;
    return end;
  }

  void run_dpu_task(Run& run, uint32_t enable_mask, const Position& where) {
    std::optional<RegisterFile> stale;
    if (!chip.is_healthy()) {
      stale = chip.running_registers(run.registers, enable_mask, run.left.was_conv);
    }
    TaskPlan plan = plan_task(enable_mask, stale ? *stale : run.registers, run.tables, run.memory,
                              run.cbuf, settings.chip, where);
    report(run, plan, enable_mask, where);
    if (!chip.is_healthy()) {
      run_worse(run, &plan, where);
    } else if (!settings.dry_run) {
      compute(plan);
    }
  }

  void compute(const TaskPlan& plan) {
    if (settings.plain) {
      run_elements(plan, pool);
    } else {
      fast.run(plan);
    }
  }

  void run_worse(Run& run, TaskPlan* plan, const Position& where) {
    WorseTask task{*plan, run.left, run.memory, where, !is_chained(), run.tables.is_whole_load()};
    task.tables = run.tables;
    chip.change(&task);
    if (settings.dry_run) return;
    if (!task.is_skipped) compute(*plan);
    WorseChip::finish(task);
  }

  bool is_chained() const {
    return settings.kernel == Kernel::kNone ? settings.chained : settings.kernel == Kernel::kRknpu;
  }

  // Drops the oldest writes, in portions.
  static void bound_writes(RunFacts* facts, size_t most) {
    std::vector<ElementWrite>& writes = facts->writes;
    if (writes.size() <= most) return;
    const size_t extra = writes.size() - kMostWrites;
    writes.erase(writes.begin(), writes.begin() + static_cast<ptrdiff_t>(extra));
    facts->earlier_writes += extra;
  }

  Position position(Run& run, const std::string& layer) const {
    return {run.task, layer, settings.lenient ? &run.facts.complaints : nullptr};
  }

  // What was asked for of a planned task.
  template <typename Plan>
  void report(Run& run, const Plan& plan, uint32_t enable_mask, const Position& where) const {
    if (settings.counters) {
      TaskCounters& c = run.facts.tasks.emplace_back();
      c.task = where.task;
      c.layer = where.layer;
      c.enable_mask = enable_mask;
      count(plan, &c);
      const uint64_t moved = c.feature_bytes + c.weight_bytes + c.operands.all() + c.written_bytes;
      c.ddr_cycles = ceil_div(moved * 10, settings.chip.bus_decibytes_per_cycle);
    }
    if (settings.accesses) {
      TaskAccess& found = run.facts.accesses.emplace_back(access_of(plan));
      found.inherits = run.registers.inherits();
      found.loads_tables = run.tables.is_whole_load();
      found.looks_up = found.looks_up && !found.loads_tables;
    }
    if (!settings.probe) return;
    auto write = explain_task(plan, enable_mask, run.registers, *settings.probe, where);
    if (write) run.facts.writes.push_back(std::move(*write));
    bound_writes(&run.facts, 2 * kMostWrites);
  }

  void run_pooling_task(Run& run, uint32_t enable_mask, const Position& where) {
    if (!chip.ends_pooling()) {
      raise(fault::kNeverCompletes, where, "PC.INTERRUPT_MASK",
            "this chip's PPU raises no interrupt");
    }
    const BlockView ppu = run.registers.view(Block::kPpu, where);
    const BlockView rdma = run.registers.view(Block::kPpuRdma, where);
    const PoolingPlan plan = plan_pooling(decode_pooling(ppu, rdma), run.memory, where);
    for (const AddressPattern& pattern : plan.writes) run.cbuf.note_write(pattern);
    report(run, plan, enable_mask, where);
    if (!settings.dry_run) run_pooling(plan, pool);
  }

  // The mainline driver kicks every task by itself and waits for the DPU's interrupt.
  void check_rocket(Run& run, const Task& task, uint32_t enable_mask) const {
    if (settings.kernel != Kernel::kRocket) return;
    Position where = position(run, task.layer);
    --where.task;
    if (run.registers.inherits()) {
      raise(fault::kNeverWrittenRegister, where, "PC.TASK_CON",
            "the task needs registers that only tasks before it wrote, and whether they outlive a "
            "kick is not known; let tasks write all their registers");
    }
    if ((enable_mask & kEnableDpu) != 0) return;
    raise(fault::kNeverCompletes, where, "PC.INTERRUPT_MASK",
          "the task does not run the DPU, and stock rocket waits for the DPU's interrupt only: the "
          "job would end by its timeout; run pooling as a convolution or on the CPU");
  }

  void run_chain(Run& run, const Job& job) {
    const std::string no_layer;
    const bool follows_links = job.tasks.size() == 1;
    std::set<uint64_t> visited;
    uint64_t address = job.tasks[0].regcmd;
    uint32_t words = job.tasks[0].regcmd_count;
    const uint64_t first = address;
    for (size_t i = 0;; ++i) {
      const Position where = position(run, i < job.tasks.size() ? job.tasks[i].layer : no_layer);
      if (!visited.insert(address).second) {
        raise(fault::kChainLoop, where, "PC.BASE_ADDRESS",
              "the chain comes back to the segment at ", hex(address), " and would never end");
      }
      if (i >= settings.chip.max_chain_tasks) {
        raise(fault::kBrokenChain, where, "PC.TASK_CON", "the chain has more than ",
              settings.chip.max_chain_tasks, " tasks");
      }
      const SegmentEnd end = run_task(run, address, words, where.layer);
      const bool is_last = follows_links ? end.next_address == 0 : i + 1 == job.tasks.size();
      if (is_last) return;
      check_link(run.memory, job, i, first, end, where);
      address = end.next_address;
      words = end.next_words;
    }
  }

  static void check_link(const Memory& memory, const Job& job, size_t i, uint64_t first,
                         const SegmentEnd& end, const Position& where) {
    const size_t next = i + 1;
    if (end.next_address == 0) {
      raise(fault::kBrokenChain, where, "PC.BASE_ADDRESS", "the tail has no link but ",
            job.tasks.size() - next, " tasks of the job remain; the core would wait for ever");
    }
    if (!memory.same_region(first, end.next_address)) {
      raise(fault::kChainLeavesBuffer, where, "PC.BASE_ADDRESS", "the link to ",
            hex(end.next_address), " leaves the buffer of the command stream");
    }
    if (next >= job.tasks.size()) return;
    if (end.next_address != job.tasks[next].regcmd) {
      raise(fault::kBrokenChain, where, "PC.BASE_ADDRESS", "the link goes to ",
            hex(end.next_address), " but the job's next task is at ", hex(job.tasks[next].regcmd));
    }
    const uint32_t count = job.tasks[next].regcmd_count;
    if (end.next_words != (count + 1) / 2 * 2) {
      complain(fault::kBrokenChain, where, "PC.REGISTER_AMOUNTS", "the amount makes the PC fetch ",
               end.next_words, " words but the next task has ", count);
    }
  }

  RunFacts run(Span<const Region> memory, Span<const Job> jobs) {
    Run run(memory, settings.chip);
    if (settings.keeps_state && kept != nullptr) {
      run.registers = std::move(kept->registers);
      run.tables = std::move(kept->tables);
      run.cbuf = std::move(kept->cbuf);
      run.left = std::move(kept->left);
    }
    const bool chained = is_chained();
    fast.start_run();
    for (const Job& job : jobs) {
      if (job.tasks.empty()) continue;
      if (chained) {
        run_chain(run, job);
        continue;
      }
      for (const Task& task : job.tasks) {
        const SegmentEnd end = run_task(run, task.regcmd, task.regcmd_count, task.layer);
        check_rocket(run, task, end.enable_mask);
      }
    }
    bound_writes(&run.facts, kMostWrites);
    RunFacts facts = std::move(run.facts);
    if (settings.keeps_state) kept = std::make_unique<Run>(std::move(run));
    return facts;
  }

  std::unique_ptr<Run> kept;  // of the run before
  Settings settings;
  ThreadPool pool;
  FastPath fast;
  WorseChip chip;
};

Simulator::Simulator(Settings settings) : impl_(std::make_unique<Impl>(settings)) {}
Simulator::~Simulator() = default;
RunFacts Simulator::run(Span<const Region> memory, Span<const Job> jobs) {
  return impl_->run(memory, jobs);
}

}  // namespace rk3588::sim
