#include "core.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "chip/registers_gen.h"
#include "sim/fault.h"

namespace rk3588::board {
namespace {

namespace regs = sim::regs;
using sim::hex;

constexpr uint32_t kVersion = 0x46495245;  // what boards print

enum Register : uint32_t {
  kPcVersion = 0x00,
  kPcVersionNumber = 0x04,
  kPcOperationEnable = 0x08,
  kPcBaseAddress = 0x10,
  kPcRegisterAmounts = 0x14,
  kPcInterruptMask = 0x20,
  kPcInterruptClear = 0x24,
  kPcInterruptStatus = 0x28,
  kPcRawInterrupts = 0x2c,
  kPcTaskCon = 0x30,
  kPcTaskDmaBase = 0x34,
  kCnaPointer = 0x1004,
  kCorePointer = 0x3004,
};

constexpr uint32_t kEnableDpu = 0x08;
constexpr uint32_t kEnablePpu = 0x20;
constexpr uint32_t kInterruptDpu = 0x100;
constexpr uint32_t kInterruptPpu = 0x400;
constexpr uint64_t kWordBytes = 8;
// A page that no driver maps: IOVAs are handed out from 0.
constexpr uint64_t kNowhere = 0xfffff000;

// The first address in a fault's message that nothing is mapped at.
uint64_t unmapped_address(const std::string& text, const DeviceView& view) {
  uint64_t address = kNowhere;
  for (size_t at = text.find("0x"); at != std::string::npos; at = text.find("0x", at + 2)) {
    address = std::strtoull(text.c_str() + at, nullptr, 16);
    if (!view.is_mapped(address)) break;
  }
  return address;
}

}  // namespace

void log_line(const std::string& text) {
  static const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double> now = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "[%10.4f] %s\n", now.count(), text.c_str());
}

Core::Core(BoardState& board, const Layout& layout, unsigned index)
    : board_(board), layout_(layout), index_(index), thread_([this] { work(); }) {}

Core::~Core() {
  {
    const std::lock_guard<std::mutex> lock(board_.mutex);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Core::complain(const std::string& text) const {
  log_line("core " + std::to_string(index_) + ": " + text);
}

Iommu* Core::iommu_at(uint32_t offset, uint32_t* within) {
  for (size_t i = 0; i < iommus_.size(); ++i) {
    const uint32_t start = layout_.iommus[i];
    if (offset < start || offset >= start + Iommu::kWindowBytes) continue;
    *within = offset - start;
    return &iommus_[i];
  }
  return nullptr;
}

uint32_t Core::read(uint32_t offset) const {
  uint32_t within = 0;
  const Iommu* iommu = const_cast<Core*>(this)->iommu_at(offset, &within);
  if (iommu != nullptr) return iommu->read(within);
  if (offset == kPcInterruptStatus) return pending();
  if (const uint32_t* value = const_cast<Registers&>(registers_).at(layout_, offset)) return *value;
  if (offset == kPcVersion) return kVersion;
  if (offset != kPcVersionNumber) complain("read of unknown register " + hex(offset));
  return 0;
}

void Core::write(uint32_t offset, uint32_t value) {
  uint32_t within = 0;
  if (Iommu* iommu = iommu_at(offset, &within)) {
    if (!iommu->write(within, value)) {
      complain("IOMMU: write of " + hex(value) + " to " + hex(within));
    }
    return;
  }
  if (offset == kPcInterruptClear) {
    registers_.raw_interrupts &= ~value;
    return;
  }
  // The CPU reaches the other blocks only in slave mode.
  if (offset == kCnaPointer && registers_.base_address != 1) {
    complain("VIOLATION: CNA written without PC.BASE_ADDRESS = 1");
  }
  uint32_t* place = registers_.at(layout_, offset);
  if (place == nullptr || offset == kPcRawInterrupts || offset == layout_.task_status) {
    return complain("write of " + hex(value) + " to unknown register " + hex(offset));
  }
  *place = value;
  if (offset != kPcOperationEnable || (value & 1) == 0) return;
  if (is_busy_ || is_kicked_) return complain("VIOLATION: started while a task runs");
  is_kicked_ = computes_ = true;
  changed_.notify_all();
}

uint32_t* Core::Registers::at(const Layout& layout, uint32_t offset) {
  if (offset == layout.task_status) return &tasks_done;
  if (layout.cbuf_setup != 0 && offset == layout.cbuf_setup) return &cbuf_setup;
  switch (offset) {
    case kPcOperationEnable:
      return &operation_enable;
    case kPcBaseAddress:
      return &base_address;
    case kPcRegisterAmounts:
      return &register_amounts;
    case kPcInterruptMask:
      return &interrupt_mask;
    case kPcRawInterrupts:
      return &raw_interrupts;
    case kPcTaskCon:
      return &task_con;
    case kPcTaskDmaBase:
      return &task_dma_base;
    case kCnaPointer:
      return &cna_pointer;
    case kCorePointer:
      return &core_pointer;
    default:
      return nullptr;
  }
}

void Core::reset() {
  complain(is_busy_ ? "reset while a task is on it" : "reset");
  ++generation_;
  is_busy_ = is_kicked_ = computes_ = false;
  registers_ = {};
  for (Iommu& iommu : iommus_) iommu.reset();
}

bool Core::interrupt() const {
  return pending() != 0 || iommus_[0].interrupt() || iommus_[1].interrupt();
}

void Core::work() {
  std::unique_lock<std::mutex> lock(board_.mutex);
  for (;;) {
    changed_.wait(lock, [this] { return is_kicked_ || ends_; });
    if (ends_) return;
    const Kick kick = take_kick();
    if (!iommus_[1].translates()) {
      complain("HANGS: its IOMMU does not translate");
      stop_computing();
      continue;
    }
    if (kick.fault.kind == FaultKind::kSlow) stop_computing();  // its time is the NPU's
    lock.unlock();
    run(kick);
    lock.lock();
    stop_computing();
  }
}

// With the mutex held.
void Core::stop_computing() {
  // Kicked again behind the interrupt: that task is still to be computed.
  computes_ = is_kicked_;
  board_.lines_changed();
}

Core::Kick Core::take_kick() {
  is_kicked_ = false;
  is_busy_ = true;
  registers_.tasks_done = 0;
  Kick kick;
  kick.base = registers_.base_address;
  kick.words = ((registers_.register_amounts & 0xffff) + 1) * 2;
  kick.tasks = registers_.task_con & layout_.task_number_mask;
  kick.directory = iommus_[1].directory();
  kick.generation = generation_;
  kick.fault = board_.faults.next();
  return kick;
}

void Core::run(const Kick& kick) {
  switch (kick.fault.kind) {
    case FaultKind::kHang:
      return complain("this task hangs, as asked");
    case FaultKind::kPage:
      complain("this task meets no page, as asked");
      return page_fault(kick, kNowhere, true);
    case FaultKind::kReset: {
      complain("state is lost, as asked");
      const std::lock_guard<std::mutex> lock(board_.mutex);
      return reset();
    }
    case FaultKind::kSlow:
      std::this_thread::sleep_for(std::chrono::milliseconds(kick.fault.value));
      break;
    case FaultKind::kForget:
      simulator_.reset();
      break;
    default:
      break;
  }
  uint32_t enabled = 0;
  if (!simulate(kick, &enabled)) return;  // the core waits for ever
  if (kick.fault.kind == FaultKind::kSilent) return complain("no interrupt, as asked");
  if (kick.fault.kind == FaultKind::kPpu) enabled = kEnablePpu;
  finish(kick, enabled);
}

bool Core::follow(const Kick& kick, sim::Job* job, uint32_t* enabled) {
  uint64_t base = kick.base;
  uint32_t words = kick.words;
  for (uint32_t left = std::max(kick.tasks, 1u); left > 0; --left) {
    uint64_t next = 0;
    uint32_t amounts = 0;
    *enabled = 0;
    for (uint32_t i = 0; i < words; ++i) {
      const uint64_t word = view_.word(base + uint64_t{i} * kWordBytes);
      const auto value = static_cast<uint32_t>(word >> 16);
      const auto offset = static_cast<uint32_t>(word & 0xffff);
      if (word >> 48 == regs::enable::kTarget) *enabled = value;
      if (word >> 48 != regs::pc::kTarget) continue;
      if (offset == kPcBaseAddress) next = value & ~15u;
      if (offset == kPcRegisterAmounts) amounts = value;
    }
    job->tasks.push_back({base, words, ""});
    if (left > 1 && next == 0) {
      complain("HANGS: " + std::to_string(left - 1) + " tasks remain but the tail has no link");
      return false;
    }
    base = next;
    words = ((amounts & 0xffff) + 1) * 2;
  }
  return true;
}

void Core::prepare_simulator(const Kick& kick) {
  const char* always = std::getenv("RK3588_SIM_BREAK");
  std::string deviations = kick.fault.deviations;
  if (deviations.empty() && always != nullptr) deviations = always;
  const bool chains = kick.tasks > 1;
  // Nothing may rely on what a reset leaves.
  if (simulator_ != nullptr && simulator_generation_ == kick.generation &&
      simulator_chains_ == chains && simulator_deviations_ == deviations) {
    return;
  }
  sim::Settings settings;
  settings.chip = layout_.chip;
  settings.threads = 1;
  settings.keeps_state = true;
  settings.chained = chains;
  settings.deviations = deviations;
  simulator_ = std::make_unique<sim::Simulator>(settings);
  simulator_generation_ = kick.generation;
  simulator_chains_ = chains;
  simulator_deviations_ = deviations;
}

bool Core::simulate(const Kick& kick, uint32_t* enabled) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<sim::Region> memory = view_.update(*board_.ram, kick.directory);
  // Drivers and devices that know 32 bits of an address only show there.
  if (view_.highest() >> 32 != 0 && !std::exchange(said_high_, true)) {
    complain("pages above 4 GiB, up to " + hex(view_.highest()));
  }
  sim::Job job;
  if (!follow(kick, &job, enabled)) return false;
  try {
    prepare_simulator(kick);
    simulator_->run(memory, Span<const sim::Job>(&job, 1));
  } catch (const sim::Fault& fault) {
    complain(fault.kind + ": " + fault.what() + " (stream at " + hex(kick.base) + ", " +
             std::to_string(kick.words) + " words)");
    simulator_.reset();
    if (fault.kind == "UnmappedAccess") {
      page_fault(kick, unmapped_address(fault.what(), view_),
                 fault.unit == "DPU" || fault.unit == "PPU");
    }
    return false;
  } catch (const std::invalid_argument& error) {
    complain(std::string("HANGS: ") + error.what());
    return false;
  }
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
  complain("task " + std::to_string(++tasks_) + " at " + hex(kick.base) + ", " +
           std::to_string(kick.words) + " words, " + std::to_string(job.tasks.size()) +
           " in the chain, enable " + hex(*enabled) + ", " + std::to_string(ms.count()) + " ms");
  return true;
}

void Core::finish(const Kick& kick, uint32_t enabled) {
  const std::lock_guard<std::mutex> lock(board_.mutex);
  if (kick.generation != generation_) return complain("the task ended after a reset");
  is_busy_ = false;
  registers_.tasks_done = std::max(kick.tasks, 1u);
  if ((enabled & kEnableDpu) != 0) registers_.raw_interrupts |= kInterruptDpu << group_;
  if ((enabled & kEnablePpu) != 0) registers_.raw_interrupts |= kInterruptPpu << group_;
  group_ ^= 1;
  board_.lines_changed();
}

void Core::page_fault(const Kick& kick, uint64_t address, bool is_write) {
  const std::lock_guard<std::mutex> lock(board_.mutex);
  if (kick.generation != generation_) return;
  iommus_[1].fault(static_cast<uint32_t>(address), is_write);
  board_.lines_changed();
}

}  // namespace rk3588::board
