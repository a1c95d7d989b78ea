// Proof that the NPU ran: marks in memory that it must overwrite.
//
// Kernel drivers drop or reset jobs without a word, and the outputs would then hold the previous
// result. Before each run some atoms of every output tensor get a pattern; if one tensor keeps all
// of its marks, the run did not happen. Marks at the place where each task writes first tell how
// far it came; they cost a synchronisation of all memory, so they are set for the first run and
// when results are verified.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device.h"
#include "program.h"
#include "run_mark.h"

namespace rk3588 {

class RunProof {
 public:
  // `output` is the buffer of the bindings. `targets`: first address that each task writes, in
  // order; `layers`: their names. `memory`: all buffers that tasks write, with `output`.
  RunProof(const std::vector<Binding>& outputs, Buffer& output, Span<const uint64_t> targets,
           std::vector<std::string> layers, std::vector<Buffer*> memory);

  // Before the buffers are given to the device. With `tasks`, marks every task's target, too.
  void mark(bool tasks);
  // Index of an output tensor that nobody wrote, -1: all were written.
  int unwritten() const;
  // Where the run stopped, as far as the marks tell, for the end of a message. The memory must have
  // been synchronised for the host.
  std::string progress() const;

 private:
  std::vector<std::vector<uint8_t*>> outputs_;  // marked atoms by tensor
  std::vector<uint8_t*> targets_;               // by task; nullptr: a later task writes there, too
  std::vector<std::string> layers_;
  RunMark mark_;
  bool tasks_marked_ = false;
};

}  // namespace rk3588
