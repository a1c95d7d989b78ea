// Who says whether a board may run a program, and learns what came of its first inference.
#pragma once

#include <functional>
#include <string>

#include "program/program.h"

namespace rk3588 {

// In which way a run on a board was not the simulator's.
struct Shortfall {
  enum class Kind { kDiffers, kHangs } kind = Kind::kDiffers;
  std::string text;
};

class ProgramGate {
 public:
  // Told once what came of a program's first inference: nullptr where it was the simulator's.
  using Verdict = std::function<void(const Shortfall*)>;

  virtual ~ProgramGate() = default;
  // Throws DeviceError that says why the board must not run the program. Returns a function where
  // its first inference has to be compared with the simulator, else none. Thread-safe, as the
  // function is; neither takes Python's lock in the latter.
  virtual Verdict admit(const Program& program) = 0;
};

}  // namespace rk3588
