// Reads every command of a submit before a kernel driver sees it.
//
// A kernel driver hands streams to the hardware unread, and the hardware has no bounds: without an
// IOMMU a wrong address overwrites anybody's memory. So a stream is refused unless every address it
// names, and every byte its tasks reach from there, lies in the buffers of the submit, outputs only
// where they may be written; every link leads to the next task of the job; and no register that
// belongs to the kernel is written. What a task does not write itself counts as the task two before
// it on the same blocks left it, as in the hardware: a delta is held to the same rules as a
// complete segment. Independent of the compiler, of the reader of programs and of captures:
// whatever they let through ends here.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "host/device.h"
#include "sim/pc.h"
#include "sim/simulator.h"
namespace rk3588 {

// A stream that must not reach the hardware.
class StreamError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

struct VerifiedTask {
  uint32_t enable_mask = 0;
  uint64_t target = 0;         // device address of the first byte it writes
  bool links_to_next = false;  // its tail leads to the next task of the job
  // The bytes that it reads and writes, and what it takes from tasks before it: CBUF, so that it
  // needs the same core, and registers, which are known to stay within one kick only.
  sim::TaskAccess access;
};

// Tasks by job, as in the submit.
using VerifiedJobs = std::vector<std::vector<VerifiedTask>>;

// Throws StreamError unless the device runs programs of the submit's chip.
void require_runs(const Device& device, const Submit& submit);

// Throws StreamError naming job, task, layer and the rule.
VerifiedJobs verify_streams(const Submit& submit);

// Returns the memory that tasks [first, first + count) of a job of a verified submit touch. They
// run by themselves, on a core that may have run anything before: they must bring all they need.
// Throws StreamError.
std::vector<sim::TaskAccess> verify_alone(const Submit& submit, size_t job, size_t first,
                                          size_t count);

// Tasks [first, first + count) of a job, as the simulator takes them.
sim::Job sim_job(const JobRef& job, size_t first, size_t count);

// Jobs of `chip` whose commands and data lie in `from`, for copies of these buffers: the commands
// in the copies get the copies' addresses. One that lies in none of the buffers stays as it is.
// `see` is told of every command of a task that names an address, and where that was. Throws
// StreamError if commands lie outside the buffers, and what `see` throws.
using SeeAddress = std::function<void(const TaskRef& task, const sim::Word& command,
                                      const std::optional<AddressPlace>& place)>;
std::vector<JobRef> move_jobs(std::vector<JobRef> jobs, const std::vector<Buffer*>& from,
                              const std::vector<Buffer*>& to, const Chip& chip,
                              const SeeAddress& see);
}  // namespace rk3588
