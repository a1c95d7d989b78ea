// Which tasks of a program a device computes otherwise than the simulator, or never ends.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/stream_verifier.h"
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

// Runs parts of a program on the device and on the simulator, on the same memory.
class Isolation {
 public:
  // `simulated`: the program on the simulator, behind a run. All must outlive this. Throws
  // DeviceError.
  Isolation(const Program& program, Executable* simulated, std::shared_ptr<Device> device,
            uint32_t timeout_ms);

  // Runs every task with what it takes from others in registers, tables and CBUF, those first that
  // write least, until each form was at fault; then, if none was, every task behind the one before
  // it. Stops behind a hang. Throws DeviceError.
  std::vector<TaskFault> find();

 private:
  struct Part;

  std::vector<size_t> needed(size_t task) const;
  std::vector<TaskFault> find(bool behind_others);
  std::optional<Shortfall> shortfall(const std::vector<size_t>& tasks);
  // The bytes that the task wrote, out of the memory behind it.
  std::vector<uint8_t> written(const MemoryImage& memory, size_t task) const;

  const Program& program_;
  Executable* simulated_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Device> simulator_;
  uint32_t timeout_ms_;
  MemoryImage memory_;
  std::vector<VerifiedTask> tasks_;
  std::vector<size_t> smallest_first_;
};

}  // namespace rk3588
