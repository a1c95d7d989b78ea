// A device error with the place in the program where it happened.
#pragma once

#include <string>
#include <utility>

#include "host/device.h"

namespace rk3588 {

// Kind of a register feature that the simulator does not model, as opposed to a wrong program.
inline constexpr char kUnsupportedFeature[] = "UnsupportedFeature";

class DeviceFault : public DeviceError {
 public:
  DeviceFault(const std::string& message, std::string kind, std::string unit, std::string reg,
              int task, std::string layer)
      : DeviceError(message),
        kind(std::move(kind)),
        unit(std::move(unit)),
        reg(std::move(reg)),
        task(task),
        layer(std::move(layer)) {}
  std::string kind;
  std::string unit;
  std::string reg;
  int task;
  std::string layer;
};

}  // namespace rk3588
