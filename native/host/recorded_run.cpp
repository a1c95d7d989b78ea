#include "host/recorded_run.h"

#include <cstring>
#include <memory>
#include <set>

#include "chip/registers_gen.h"
#include "host/run_proof.h"
#include "host/stream_verifier.h"

namespace rk3588 {
namespace {

namespace regs = sim::regs;

constexpr size_t kWordBytes = sizeof(uint64_t);

class RecordedRun {
 public:
  RecordedRun(Device& device, Span<const RecordedBuffer> recorded)
      : device_(device), recorded_(recorded) {
    for (const RecordedBuffer& buffer : recorded) {
      buffers_.push_back(device.allocate(buffer.content.size(), BufferId::kScratch));
      std::memcpy(buffers_.back()->bytes().data(), buffer.content.data(), buffer.content.size());
    }
  }

  std::vector<size_t> run(const std::vector<JobRef>& jobs, uint32_t timeout_ms) {
    Submit submit;
    submit.timeout_ms = timeout_ms;
    submit.outputs_hold_content = true;
    for (const JobRef& job : jobs) {
      JobRef& target = submit.jobs.emplace_back();
      for (const TaskRef& task : job.tasks) target.tasks.push_back(move(task));
    }
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const bool is_written = written_.count(i) != 0;
      (is_written ? submit.outputs : submit.inputs).push_back(buffers_[i].get());
    }
    const std::unique_ptr<Submission> submission = device_.prepare(submit);
    // What was recorded may be the result already. Tasks that work in place have no mark: only the
    // caller's comparison judges them.
    std::vector<std::string> layers;
    for (const JobRef& job : submit.jobs) {
      for (const TaskRef& task : job.tasks) layers.push_back(task.layer);
    }
    RunProof proof(*submission, std::move(layers), submit.outputs);
    proof.mark(false);
    for (const auto& buffer : buffers_) device_.sync_for_device(*buffer);
    submission->begin();
    submission->run();
    for (const size_t i : written_) device_.sync_for_cpu(*buffers_[i]);
    const std::string missing = proof.missing();
    if (!missing.empty()) throw DeviceError(device_.name() + ": " + missing);
    for (const size_t i : written_) {
      const Span<uint8_t> target = recorded_[i].content;
      std::memcpy(target.data(), buffers_[i]->bytes().data(), target.size());
    }
    return {written_.begin(), written_.end()};
  }

 private:
  std::optional<AddressPlace> find(uint64_t address) const {
    for (size_t i = 0; i < recorded_.size(); ++i) {
      const RecordedBuffer& buffer = recorded_[i];
      if (address < buffer.address || address - buffer.address >= buffer.content.size()) continue;
      return AddressPlace{i, static_cast<size_t>(address - buffer.address)};
    }
    return std::nullopt;
  }

  uint64_t moved(const AddressPlace& place) const {
    return buffers_[place.index]->dma_address() + place.offset;
  }

  TaskRef move(const TaskRef& task) {
    const auto segment = find(task.regcmd);
    const uint64_t bytes = uint64_t{task.regcmd_count} * kWordBytes;
    if (!segment || bytes > recorded_[segment->index].content.size() - segment->offset) {
      throw StreamError("the commands of a recorded task lie outside its buffers");
    }
    uint8_t* place = buffers_[segment->index]->bytes().data() + segment->offset;
    // Segments that several tasks share are moved once.
    if (moved_.insert(task.regcmd).second) move_words(place, task.regcmd_count, task.layer);
    TaskRef result = task;
    result.regcmd = moved(*segment);
    return result;
  }

  void move_words(uint8_t* place, uint32_t count, const std::string& layer) {
    move_addresses(place, count, [&](uint64_t word) -> uint64_t {
      const uint64_t address = address_in(word);
      const auto at = find(address);
      if (!at) {
        if (address == 0) return 0;  // a reader that is off, or the end of a chain
        throw StreamError("a recorded command names an address outside the recorded buffers" +
                          (layer.empty() ? std::string() : " (" + layer + ")"));
      }
      if (is_target(word)) written_.insert(at->index);
      return moved(*at);
    });
  }

  static bool is_target(uint64_t word) {
    const uint64_t target = word >> 48;
    const uint64_t offset = word & 0xffff;
    return (target == regs::dpu::kTarget && offset == regs::dpu::dst_base_addr::kOffset) ||
           (target == regs::ppu::kTarget && offset == regs::ppu::dst_base_addr::kOffset);
  }

  Device& device_;
  Span<const RecordedBuffer> recorded_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::set<uint64_t> moved_;
  std::set<size_t> written_;
};

}  // namespace

std::vector<size_t> run_recorded(Device& device, Span<const RecordedBuffer> buffers,
                                 const std::vector<JobRef>& jobs, uint32_t timeout_ms) {
  return RecordedRun(device, buffers).run(jobs, timeout_ms);
}

}  // namespace rk3588
