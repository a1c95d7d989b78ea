// Which chip's NPU this machine has, as the kernel's device tree calls it. The registers of chips
// differ: a program of another one must not reach the NPU, whatever driver serves it.
#pragma once

#include <string>

#include "chip/chip_gen.h"

namespace rk3588 {

struct NpuChip {
  // How a driver knows the chip.
  enum class Naming {
    kCores,   // the NPU's cores are called after it, and after no other: only a driver that knows
              // the chip has taken them
    kBoard,   // only the board is, and no core can be seen
    kOthers,  // cores are called after another chip, too, so that a driver may take it for that
  };
  std::string name;             // "rk3588"; "" if nothing here says
  const Chip* chip = &kRk3588;  // nullptr: one that no program can be compiled for
  Naming naming = Naming::kBoard;
};

// The names of the NPU's cores decide, and the board's, which a device tree that lends a core
// another chip's name still tells. `root` holds sys/ and proc/.
NpuChip find_npu_chip(const std::string& root);

// Why no program may run on the node of a driver for this chip, in one line with a remedy; "" if
// programs may.
std::string chip_problem(const std::string& node, const std::string& driver, const NpuChip& found);

// The chip behind a node of a driver. Throws DeviceError where there is a problem.
const Chip& require_chip_of(const std::string& node, const std::string& driver);

// The directory above dev/ of a node's path: the one that holds sys/, too.
std::string root_of_node(const std::string& node);

}  // namespace rk3588
