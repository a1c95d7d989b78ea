// Which tasks of a program a device computes otherwise than the simulator, or never ends.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "program/executable.h"
#include "program/program.h"

namespace rk3588 {

// `names`: what of the task is to blame.
struct TaskFault {
  std::vector<std::string> names;
  Shortfall shortfall;
};

// The names in ProgramTask::form: the form, and how the task relies on those before it.
std::vector<std::string> names_of(const ProgramTask& task);

// Runs parts of the program on the device and on the simulator, on the same memory. `simulated`:
// the program on the simulator, behind a run. Throws DeviceError.
std::vector<TaskFault> find_faults(const Program& program, Executable* simulated,
                                   std::shared_ptr<Device> device, uint32_t timeout_ms);

}  // namespace rk3588
