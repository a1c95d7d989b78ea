#include "host/recorded_run.h"

#include <cstring>
#include <memory>
#include <set>

#include "host/stream_verifier.h"
#include "sim/register_file.h"

namespace rk3588 {

std::vector<size_t> run_recorded(Device& device, std::vector<RecordedBuffer>& recorded,
                                 const std::vector<JobRef>& jobs, const Chip& chip,
                                 uint32_t timeout_ms) {
  std::vector<Buffer*> from;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Buffer*> to;
  for (RecordedBuffer& buffer : recorded) {
    const Span<uint8_t> content = buffer.bytes();
    from.push_back(&buffer);
    buffers.push_back(device.allocate(content.size(), BufferId::kScratch));
    to.push_back(buffers.back().get());
    std::memcpy(to.back()->bytes().data(), content.data(), content.size());
  }
  const sim::RegisterTable& known = sim::registers_of(chip);
  std::set<size_t> written;
  const auto note = [&](const TaskRef& task, const sim::Word& word,
                        const std::optional<AddressPlace>& place) {
    // 0: of a reader that is off, or at the end of a chain.
    if (!place && word.value != 0) {
      throw StreamError("a recorded command names an address outside the recorded buffers" +
                        (task.layer.empty() ? std::string() : " (" + task.layer + ")"));
    }
    if (place && known.is_output(word.target, word.offset)) written.insert(place->index);
  };
  Submit submit;
  submit.chip = &chip;
  submit.timeout_ms = timeout_ms;
  submit.outputs_hold_content = true;
  submit.jobs = move_jobs(jobs, from, to, chip, note);
  for (size_t i = 0; i < to.size(); ++i) {
    (written.count(i) != 0 ? submit.outputs : submit.inputs).push_back(to[i]);
  }
  const std::unique_ptr<Submission> submission = device.prepare(submit);
  // Tasks that work in place have no mark: only the caller's comparison judges them.
  for (Buffer* buffer : to) device.sync_for_device(*buffer);
  submission->begin();
  submission->run();
  for (const size_t i : written) device.sync_for_cpu(*to[i]);
  for (const size_t i : written) {
    const Span<uint8_t> target = recorded[i].bytes();
    std::memcpy(target.data(), to[i]->bytes().data(), target.size());
  }
  return {written.begin(), written.end()};
}

}  // namespace rk3588
