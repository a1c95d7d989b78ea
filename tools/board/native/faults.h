// Faults on purpose: asked for in a file, looked at whenever a task starts.
//
// The file holds one line, "KIND N [VALUE]": the N-th task from now, counted down in the file; with
// N = 0 nothing happens. Kinds:
//   hang       the task never ends
//   silent     it ends without an interrupt
//   ppu        it ends with the PPU's interrupt instead of the DPU's
//   page       its first access meets no page
//   reset      the core loses its state while the task runs, as after a drop of its supply
//   slow       this task and all others take VALUE ms more (until the file changes)
//   forget     every task finds CBUF and registers empty (until the file changes)
//   deviate    the chip is worse, VALUE as RK3588_SIM_BREAK (until the file changes)
#pragma once

#include <string>

namespace rk3588::board {

enum class FaultKind { kNone, kHang, kSilent, kPpu, kPage, kReset, kSlow, kForget, kDeviate };

struct TaskFault {
  FaultKind kind = FaultKind::kNone;
  unsigned value = 0;
  std::string deviations;
};

class FaultFile {
 public:
  // "": never anything.
  explicit FaultFile(std::string path) : path_(std::move(path)) {}
  // Returns the fault of the task that starts, and counts it.
  TaskFault next() const;

 private:
  std::string path_;
};

}  // namespace rk3588::board
