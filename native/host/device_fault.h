// A device error with the place in the program where it happened.
#pragma once

#include <string>
#include <utility>

#include "host/device.h"
#include "sim/simulator.h"

namespace rk3588 {

// `fault` is what the simulator found.
class DeviceFault : public DeviceError {
 public:
  DeviceFault(const std::string& message, sim::Fault fault)
      : DeviceError(message), fault(std::move(fault)) {}
  sim::Fault fault;
};

}  // namespace rk3588
