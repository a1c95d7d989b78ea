// The task tables of a program and the submits that kick parts of it, on one core each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "host/stream_verifier.h"
#include "rknpu/rknpu_buffer.h"
#include "rknpu/rknpu_uapi.h"

namespace rk3588 {

// Tasks that go to the hardware in one kick.
struct RknpuKick {
  uint32_t first = 0;
  uint32_t count = 0;
};

class RknpuKicks {
 public:
  // Writes the table of all tasks of a verified submit; where cores have banks of a CBUF in common
  // (host/core_banks.h), one with commands of its own for each core. Throws DeviceError.
  RknpuKicks(std::shared_ptr<RknpuFile> file, const Submit& submit, const VerifiedJobs& verified);

  // Chains of at most 4095 linked tasks out of [first, first + count), never cut in front of a task
  // that reuses what the one before it left in CBUF: between two kicks another stream may use the
  // core. Throws DeviceError.
  std::vector<RknpuKick> plan(uint32_t first, uint32_t count) const;
  // On a core of the choice, once it is free. Nanoseconds that the hardware took, 0 if the driver
  // does not tell. Throws DeviceError; InterruptedRun where the job is not to blame.
  int64_t run(const RknpuKick& kick, const RknpuCoreChoice& choice) const;

  const std::shared_ptr<RknpuFile>& file() const { return file_; }

 private:
  // The commands and the table of a core: on most chips the same for all cores.
  struct Form {
    std::unique_ptr<RknpuBuffer> commands;  // nullptr: the submit's
    std::unique_ptr<RknpuBuffer> table;
  };
  std::unique_ptr<RknpuBuffer> make_table(const std::vector<JobRef>& jobs) const;
  Form second_core(const Submit& submit) const;
  const Form& form_of(int core) const {
    return forms_[std::min(static_cast<size_t>(core), forms_.size() - 1)];
  }
  int take_core(const RknpuCoreChoice& choice) const;
  int request(rknpu::Submit* submit) const;
  [[noreturn]] void fail(int number, const rknpu::Submit& submit) const;

  std::shared_ptr<RknpuFile> file_;
  uint32_t timeout_ms_;
  std::vector<VerifiedTask> tasks_;
  std::vector<Form> forms_;  // by core
};

}  // namespace rk3588
