// The devices of this version and the choice among them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/device.h"
#include "sim/simulator.h"

namespace rk3588 {

// A device error with the place in the program where it happened.
// `fault` is what the simulator found.
class DeviceFault : public DeviceError {
 public:
  DeviceFault(const std::string& message, sim::Fault fault)
      : DeviceError(message), fault(std::move(fault)) {}
  sim::Fault fault;
};

// `chip`: what it says it is; it runs the programs of all.
std::shared_ptr<Device> make_simulator_device(const Chip& chip = kRk3588);
std::shared_ptr<Device> make_null_device();
// `cores`: see DeviceSettings. `chip`: behind the node. Throw DeviceError.
std::shared_ptr<Device> make_rocket_device(const std::string& node, const std::string& cores,
                                           const Chip& chip);
std::shared_ptr<Device> make_rknpu_device(const std::string& node, const std::string& cores,
                                          const Chip& chip);

// Why the driver rocket is not guarded against this process's death, once; "" if it is, or if that
// was said.
std::string take_keeper_problem();

// Kernel drivers of the NPU.
inline constexpr char kRocketDriver[] = "rocket";
inline constexpr char kRknpuDriver[] = "rknpu";

// Path of the node that device=auto takes, or "" (find_npu_nodes says more). `root` is the
// directory that holds dev/ and sys/.
std::string find_npu_node(const std::string& root);

// The core numbers that `cores` ("auto", "all", "0,2") names; empty for "auto". Throws DeviceError.
std::vector<int> parse_cores(const std::string& cores, const Chip& chip);
// The same, and all of them for "auto".
std::vector<int> usable_cores(const std::string& cores, const Chip& chip);

}  // namespace rk3588
