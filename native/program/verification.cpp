// Runs of a program that are computed a second time: the first one (program_gate.h), every one
// (verify), or samples of them.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "host/stream_verifier.h"
#include "program/executable.h"
#include "program/result_difference.h"

namespace rk3588 {
namespace {

constexpr size_t kNobody = SIZE_MAX;

// The last task that wrote each atom of a buffer.
std::vector<size_t> owners(Buffer& buffer, const VerifiedJobs& jobs) {
  const uint64_t begin = buffer.dma_address();
  const uint64_t end = begin + buffer.bytes().size();
  std::vector<size_t> found(buffer.bytes().size() / kAtomBytes, kNobody);
  size_t task = 0;
  for (const std::vector<VerifiedTask>& job : jobs) {
    for (const VerifiedTask& item : job) {
      for (size_t i = 0; i < item.access.real_writes; ++i) {
        const sim::AddressRange& range = item.access.writes[i];
        if (range.begin < begin || range.end > end) continue;
        const auto first =
            found.begin() + static_cast<ptrdiff_t>((range.begin - begin) / kAtomBytes);
        std::fill_n(first, (range.end - range.begin) / kAtomBytes, task);
      }
      ++task;
    }
  }
  return found;
}

// Returns the label of the first task whose last result still lies in `memory` of a device and
// differs from the simulator's, "" if there is none. Lanes beyond a tensor's channels count as
// well. Throws StreamError.
std::string first_difference(const Executable& simulated, const MemoryImage& memory) {
  const VerifiedJobs jobs = verify_streams(simulated.submit());
  size_t first = kNobody;
  for (size_t id = 0; id < memory.size(); ++id) {
    if (memory[id].empty()) continue;
    Buffer& buffer = *simulated.buffers()[id];
    const std::vector<size_t> owner = owners(buffer, jobs);
    const uint8_t* bytes = buffer.bytes().data();
    for (size_t atom = 0; atom < owner.size(); ++atom) {
      const size_t at = atom * kAtomBytes;
      if (owner[atom] >= first || at + kAtomBytes > memory[id].size()) continue;
      if (std::memcmp(bytes + at, memory[id].data() + at, kAtomBytes) != 0) first = owner[atom];
    }
  }
  if (first == kNobody) return {};
  for (const JobRef& job : simulated.submit().jobs) {
    if (first < job.tasks.size()) return job.tasks[first].layer;
    first -= job.tasks.size();
  }
  return {};
}

}  // namespace

// Copies what the run took and left, unless the sample before is still computed or was wrong.
void Executable::take_sample(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs) {
  if (owner_ != getpid()) return;
  if (sample_.valid()) {
    if (sample_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    if (!sample_.get()) verify_every_ = UINT32_MAX;
    if (verify_every_ == UINT32_MAX) return;
  }
  Tensors given;
  Tensors taken;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    given.emplace_back(inputs[i], inputs[i] + inputs_[i].host_bytes());
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    taken.emplace_back(outputs[i], outputs[i] + outputs_[i].host_bytes());
  }
  was_run_ = false;  // the next run gives all memory to the device again
  sample_ = std::async(std::launch::async,
                       [this, given = std::move(given), taken = std::move(taken),
                        memory = content_of({BufferId::kScratch, BufferId::kOutput})]() mutable {
                         return check_sample(&given, &taken, memory);
                       });
}

// False: a difference was told.
bool Executable::check_sample(Tensors* inputs, Tensors* outputs, const MemoryImage& memory) {
  std::string text;
  try {
    if (difference(places(inputs), places(outputs)).empty()) return true;
    const std::string layer = first_difference(*verifier_, memory);
    text = "results of program " + name_ + " differ from the simulator" +
           (layer.empty() ? "" : ", first in " + layer);
  } catch (const std::exception& error) {
    text = std::string("a sample could not be verified: ") + error.what();
  }
  std::fprintf(stderr, "rk3588 delegate: warning: verify=sample: %s: %s\n", device_->name().c_str(),
               text.c_str());
  return false;
}

std::string Executable::difference(Span<const uint8_t* const> inputs,
                                   Span<uint8_t* const> outputs) {
  verifier_->run(inputs, places(&verified_));
  stats_->verified.fetch_add(1, std::memory_order_relaxed);
  std::string text = result_difference(outputs_, outputs, verified_);
  if (!text.empty()) stats_->differences.fetch_add(1, std::memory_order_relaxed);
  return text;
}

void Executable::run_verifier(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs) {
  const std::string text = difference(inputs, outputs);
  if (text.empty()) return;
  // A wrong result must not look like one.
  for (size_t k = 0; k < outputs_.size(); ++k) {
    std::memset(outputs[k], 0, outputs_[k].host_bytes());
  }
  throw DeviceError(device_->name() + ": verify: " + text +
                    "; send the model and the output of "
                    "`doctor --report`, or run it with device=simulator");
}

// Whatever the device does, the results are right.
RunTimes Executable::run_first(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs) {
  RunTimes times{};
  std::optional<Shortfall> found;
  try {
    times = run_on_device(inputs, outputs);
  } catch (const UnfinishedRun& error) {
    times.start = monotonic_ns();
    found = Shortfall{Shortfall::Kind::kHangs, error.what()};
  }
  std::string text = difference(inputs, outputs);
  if (!found && !text.empty()) found = Shortfall{Shortfall::Kind::kDiffers, std::move(text)};
  const ProgramGate::Verdict verdict = std::move(verdict_);
  verdict_ = nullptr;
  verdict(found ? &*found : nullptr);
  if (found) {
    is_replaced_ = true;
    for (size_t i = 0; i < verified_.size(); ++i) {
      std::memcpy(outputs[i], verified_[i].data(), verified_[i].size());
    }
    times.converted = times.submitted = times.start;
    times.done = times.end = monotonic_ns();
  } else if (!verifies_) {
    verifier_.reset();
  }
  verified_.resize(verifies_ ? verified_.size() : 0);
  return times;
}

}  // namespace rk3588
