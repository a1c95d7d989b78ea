// Which chip's NPU this machine has, as the kernel's device tree calls it. The registers of chips
// differ: a program of another one must not reach the NPU, whatever driver serves it.
#pragma once

#include <string>

namespace rk3588 {

// The name of the chip, like "rk3576", if it is one whose registers are not RK3588's; "" if they
// are, or if nothing here says. The names of the NPU's cores decide, and the board's, which a
// device tree that lends a core another chip's name still tells. `root` holds sys/ and proc/.
std::string foreign_npu_chip(const std::string& root);

// One line on a node of that chip, with a remedy.
std::string foreign_chip_problem(const std::string& node, const std::string& driver,
                                 const std::string& chip);

// The directory above dev/ of a node's path: the one that holds sys/, too.
std::string root_of_node(const std::string& node);

}  // namespace rk3588
