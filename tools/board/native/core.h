// One core: the registers that kernel drivers use, its IOMMUs, and a thread that runs its tasks on
// the simulator, in the guest's memory.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "chip/chip_gen.h"
#include "faults.h"
#include "guest_memory.h"
#include "iommu.h"

namespace rk3588::board {

// Where a chip has its cores, and what differs in their registers (device trees and the vendor's
// driver, rknpu_drv.c). CNA is at 0x1000 of a core's window, CORE at 0x3000.
struct Layout {
  const Chip& chip;
  uint64_t address;  // of the first core's window; the next one follows it
  uint64_t core_bytes;
  std::array<uint32_t, 2> iommus;  // in the window
  uint32_t task_status;            // register
  uint32_t task_number_mask;
  uint32_t cbuf_setup;  // register that the driver writes when it starts, 0: none
};

inline constexpr Layout kRk3588Layout{kRk3588, 0xfdab0000, 0x10000, {0x9000, 0xa000},
                                      0x3c,    0xfff,      0};
inline constexpr Layout kRk3576Layout{kRk3576, 0x27700000, 0x8000, {0x2000, 0x2100},
                                      0x48,    0xffff,     0x1024};

// Shared by all cores and the thread that serves requests.
struct BoardState {
  std::mutex mutex;
  const GuestRam* ram = nullptr;
  FaultFile faults{""};
  std::function<void()> lines_changed;  // called with the mutex held
};

class Core {
 public:
  Core(BoardState& board, const Layout& layout, unsigned index);
  // Ends the thread behind the task that runs.
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // The board's mutex must be held for these.
  uint32_t read(uint32_t offset) const;
  void write(uint32_t offset, uint32_t value);
  void reset();
  bool interrupt() const;
  // Whether the simulator is at work: no time of the NPU's.
  bool computes() const { return computes_; }

 private:
  // Registers that hold what was written, or what happened.
  struct Registers {
    uint32_t operation_enable = 0;
    uint32_t base_address = 0;
    uint32_t register_amounts = 0;
    uint32_t interrupt_mask = 0;
    uint32_t raw_interrupts = 0;
    uint32_t task_con = 0;
    uint32_t task_dma_base = 0;
    uint32_t tasks_done = 0;  // of the last kick
    uint32_t cna_pointer = 0;
    uint32_t core_pointer = 0;
    uint32_t cbuf_setup = 0;
    uint32_t* at(const Layout& layout, uint32_t offset);  // nullptr: there is none
  };
  struct Kick {
    uint64_t base = 0;
    uint32_t words = 0;
    uint32_t tasks = 0;
    uint64_t directory = 0;
    uint64_t generation = 0;
    TaskFault fault;
  };

  void work();
  Kick take_kick();
  void run(const Kick& kick);
  // The tasks of a kick, each after the link in the tail of the one before. Sets `enabled`, the
  // mask that starts the blocks of the last one. False: a link is missing.
  bool follow(const Kick& kick, sim::Job* job, uint32_t* enabled);
  void prepare_simulator(const Kick& kick);
  // Runs the kick on the simulator; false: the core hangs. Sets `enabled`, the mask that started
  // the blocks of the last task.
  bool simulate(const Kick& kick, uint32_t* enabled);
  void finish(const Kick& kick, uint32_t enabled);
  void stop_computing();
  void page_fault(const Kick& kick, uint64_t address, bool is_write);
  void complain(const std::string& text) const;
  uint32_t pending() const { return registers_.raw_interrupts & registers_.interrupt_mask; }
  Iommu* iommu_at(uint32_t offset, uint32_t* within);

  BoardState& board_;
  const Layout& layout_;
  const unsigned index_;
  // The first core has two IOMMUs, which drivers program alike; the others have the second.
  std::array<Iommu, 2> iommus_;
  Registers registers_;
  bool is_kicked_ = false;
  bool is_busy_ = false;
  bool computes_ = false;
  bool ends_ = false;
  uint32_t group_ = 0;       // whose interrupts the next task raises
  uint64_t generation_ = 0;  // of resets
  std::condition_variable changed_;

  // Members of the thread.
  DeviceView view_;
  std::unique_ptr<sim::Simulator> simulator_;
  uint64_t simulator_generation_ = 0;
  bool simulator_chains_ = false;
  std::string simulator_deviations_;
  uint64_t tasks_ = 0;
  bool said_high_ = false;
  std::thread thread_;
};

// A line on stderr with the time.
void log_line(const std::string& text);

}  // namespace rk3588::board
