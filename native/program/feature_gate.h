// Who says whether a board may run a program: its features must have proved themselves there.
#pragma once

#include "program/program.h"

namespace rk3588 {

class FeatureGate {
 public:
  virtual ~FeatureGate() = default;
  // Throws DeviceError naming what the program needs and the board lacks. Thread-safe.
  virtual void require(const Program& program) = 0;
};

}  // namespace rk3588
