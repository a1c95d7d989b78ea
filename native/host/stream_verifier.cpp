#include "host/stream_verifier.h"

#include <cstring>
#include <set>
#include <string>

#include "host/core_banks.h"
#include "sim/fault.h"
#include "sim/pc.h"
#include "sim/register_file.h"
#include "sim/simulator.h"
#include "text.h"

namespace rk3588 {
namespace {

namespace regs = sim::regs;
using sim::decode;
using sim::hex;
using sim::Word;

constexpr uint32_t kWordBytes = 8;
constexpr uint32_t kTailWords = 4;
constexpr uint64_t kSegmentAlignment = 64;
// PC.REGISTER_AMOUNTS holds (words + 1) / 2 - 1 in 16 bits.
constexpr uint32_t kMaxTaskWords = 131072;
// More than any program has; a kernel driver multiplies this by the size of its records.
constexpr size_t kMaxTasks = size_t{1} << 20;

// The simulator decodes every task and checks each byte it would touch, without computing.
std::vector<sim::TaskAccess> dry_run(const Submit& submit, bool outputs_hold_content,
                                     const std::vector<sim::Job>& jobs) {
  std::vector<sim::Region> memory;
  const auto add = [&](Buffer& buffer, bool is_output) {
    // Results may lie beside what the host wrote.
    const bool holds_content = !is_output || outputs_hold_content || &buffer == submit.host_input;
    memory.push_back({is_output ? "written by the device" : "read by the device",
                      buffer.dma_address(), buffer.bytes(), holds_content ? UINT64_MAX : 0});
  };
  for (Buffer* buffer : submit.inputs) add(*buffer, false);
  for (Buffer* buffer : submit.outputs) add(*buffer, true);
  sim::Settings settings;
  settings.chip = *submit.chip;
  settings.threads = 1;
  settings.dry_run = true;
  settings.accesses = true;
  try {
    return sim::Simulator(settings).run(memory, jobs).accesses;
  } catch (const sim::Fault& fault) {
    throw StreamError(std::string("refused before it reached the NPU: ") + fault.what());
  }
}

class Verifier {
 public:
  explicit Verifier(const Submit& submit)
      : submit_(submit), known_(sim::registers_of(*submit.chip)), buffers_(submit.inputs) {
    buffers_.insert(buffers_.end(), submit.outputs.begin(), submit.outputs.end());
    for (size_t i = 0; i < buffers_.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        // The same buffer listed twice makes the kernel drop the job without a word.
        if (end_of(i) > buffers_[k]->dma_address() && end_of(k) > buffers_[i]->dma_address()) {
          refuse("two buffers overlap, or one is listed twice");
        }
      }
    }
  }

  VerifiedJobs verify() {
    VerifiedJobs jobs;
    size_t tasks = 0;
    for (job_ = 0; job_ < submit_.jobs.size(); ++job_) {
      const JobRef& job = submit_.jobs[job_];
      if (job.tasks.empty()) refuse("it has no tasks");
      tasks += job.tasks.size();
      if (tasks > kMaxTasks) refuse("there are more than ", kMaxTasks, " tasks");
      auto& verified = jobs.emplace_back();
      for (task_ = 0; task_ < job.tasks.size(); ++task_) {
        verified.push_back(verify_task(job.tasks[task_]));
      }
      layer_ = nullptr;
    }
    if (jobs.empty()) refuse("there is no job");
    check_effects(&jobs);
    return jobs;
  }

 private:
  uint64_t end_of(size_t buffer) const {
    return buffers_[buffer]->dma_address() + buffers_[buffer]->bytes().size();
  }
  bool is_output(const AddressPlace& place) const { return place.index >= submit_.inputs.size(); }

  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... what) const {
    std::string place = joined("job ", job_);
    if (layer_ != nullptr) {
      place += joined(" task ", task_);
      if (!layer_->empty()) place += " (" + *layer_ + ")";
    }
    throw StreamError(joined("refused before it reached the NPU: ", place, ": ", what...,
                             "; compile the model again"));
  }

  VerifiedTask verify_task(const TaskRef& task) {
    layer_ = &task.layer;
    const uint32_t count = task.regcmd_count;
    if (count <= kTailWords || count > kMaxTaskWords) {
      refuse(count, " commands are not between 5 and ", kMaxTaskWords);
    }
    if (task.regcmd % kSegmentAlignment != 0) {
      refuse("its commands at ", hex(task.regcmd), " are not aligned to 64 bytes");
    }
    const auto segment = find_address(buffers_, task.regcmd);
    if (!segment || uint64_t{count} * kWordBytes > end_of(segment->index) - task.regcmd) {
      refuse("its commands at ", hex(task.regcmd), " lie outside the buffers");
    }
    // A task that could overwrite commands could send the next one anywhere.
    if (is_output(*segment)) refuse("its commands lie in a buffer that the device may write");
    words_.resize(count);
    const uint8_t* commands = buffers_[segment->index]->bytes().data() + segment->offset;
    std::memcpy(words_.data(), commands, size_t{count} * kWordBytes);

    check_fetched(task, end_of(segment->index), commands);

    VerifiedTask result;
    // Fillers may follow the start; the tail is the four words that end with it.
    uint32_t used = count;
    while (used > 0 && words_[used - 1] == 0) --used;
    if (used <= kTailWords) refuse("it starts nothing");
    const uint32_t tail = used - kTailWords;
    for (uint32_t i = 0; i < tail; ++i) check_body(decode(words_[i]), i, &result);
    check_tail(tail, segment->index, &result);
    if (task.enable_mask != 0 && task.enable_mask != result.enable_mask) {
      refuse("its record says that it starts ", hex(task.enable_mask), " but its commands start ",
             hex(result.enable_mask));
    }
    if (!has_target_) refuse("it never says where its output goes");
    has_target_ = false;
    return result;
  }

  // The NPU fetches pairs of words: behind an odd number lies one more, which must do nothing.
  void check_fetched(const TaskRef& task, uint64_t end, const uint8_t* commands) const {
    if (task.regcmd_count % 2 == 0) return;
    const uint64_t bytes = uint64_t{task.regcmd_count} * kWordBytes;
    const bool is_inside = task.regcmd + bytes + kWordBytes <= end;
    // The rest of a buffer's last page is zero.
    if (!is_inside && end % kDevicePageBytes != 0) return;
    uint64_t word = 1;
    if (is_inside) std::memcpy(&word, commands + bytes, sizeof(word));
    if (word != 0) refuse("the word behind its commands, which the NPU fetches too, is not 0");
  }

  // Unknown registers and values, and reserved bits, are the dry run's to refuse.
  void check_body(const Word& word, uint32_t index, VerifiedTask* result) {
    if (word.target == sim::kTargetFiller) return;
    if (word.target == regs::pc::kTarget || word.target == regs::sync::kTarget ||
        word.target == regs::enable::kTarget) {
      refuse("command ", index, " (target ", hex(word.target), ") is written before the tail");
    }
    const regs::Register* reg = known_.find(word.target, word.offset);
    if (reg == nullptr) return;
    const bool is_of_kernel =
        word.target == regs::cna::kTarget || word.target == regs::core::kTarget;
    if ((word.offset & 0xfff) == 0x004 && is_of_kernel && !known_.streams_arm_all) {
      refuse(reg->name, " may be written by the kernel only: a stream that does hangs the NPU");
    }
    if (submit_.chip->cbuf_is_shared && has_second_banks(*submit_.chip, word)) {
      refuse(reg->name, " = ", hex(word.value),
             " takes the second core's banks of CBUF: programs are for the first core's, and "
             "devices move them");
    }
    if (reg->is_address) check_address(word, *reg, result);
  }

  void check_address(const Word& word, const regs::Register& reg, VerifiedTask* result) {
    const bool is_target = known_.is_output(word.target, word.offset);
    const auto place = find_address(buffers_, word.value);
    if (!place) {
      // Readers that are switched off keep 0; what is read is checked with its extent.
      if (word.value == 0 && !is_target) return;
      refuse(reg.name, " = ", hex(word.value), " lies outside the buffers");
    }
    if (!is_target) return;
    if (!is_output(*place)) {
      refuse(reg.name, " = ", hex(word.value), " lies in a buffer that the device may only read");
    }
    has_target_ = true;
    result->target = word.value;
  }

  void check_tail(uint32_t tail, size_t buffer, VerifiedTask* result) const {
    const Word link = decode(words_[tail]);
    const Word amount = decode(words_[tail + 1]);
    const Word barrier = decode(words_[tail + 2]);
    const Word start = decode(words_[tail + 3]);
    const bool has_link = words_[tail] != 0;
    if (has_link &&
        (link.target != regs::pc::kTarget || link.offset != regs::pc::base_address::kOffset)) {
      refuse("its tail does not begin with the link to the next task");
    }
    if (amount.target != regs::pc::kTarget ||
        amount.offset != regs::pc::register_amounts::kOffset ||
        barrier.target != regs::sync::kTarget || start.target != regs::enable::kTarget) {
      refuse("its tail is not link, amount, barrier and start");
    }
    result->enable_mask = start.value;
    if (!has_link || link.value == 0) return;
    const auto& tasks = submit_.jobs[job_].tasks;
    if (task_ + 1 >= tasks.size())
      refuse("its tail links to ", hex(link.value), " behind the last task");
    const TaskRef& next = tasks[task_ + 1];
    const auto place = find_address(buffers_, next.regcmd);
    if (link.value != next.regcmd || !place || place->index != buffer) {
      refuse("its tail links to ", hex(link.value), ", not to the next task at ", hex(next.regcmd));
    }
    const uint32_t expected = (next.regcmd_count + 1) / 2 - 1;
    if (amount.value != expected) {
      refuse("its tail announces ", hex(amount.value), " for the next task; its commands make it ",
             hex(expected));
    }
    result->links_to_next = true;
  }

  // Checks the memory behind the base addresses, and what a task takes from those before it.
  void check_effects(VerifiedJobs* verified) const {
    std::vector<sim::Job> jobs;
    for (const JobRef& job : submit_.jobs) jobs.push_back(sim_job(job, 0, job.tasks.size()));
    std::vector<sim::TaskAccess> accesses = dry_run(submit_, submit_.outputs_hold_content, jobs);
    auto access = accesses.begin();
    for (auto& job : *verified) {
      for (VerifiedTask& task : job) {
        task.access = std::move(*access++);
      }
    }
  }

  const Submit& submit_;
  const sim::RegisterTable& known_;
  std::vector<Buffer*> buffers_;  // inputs, then outputs
  std::vector<uint64_t> words_;
  size_t job_ = 0;
  size_t task_ = 0;
  const std::string* layer_ = nullptr;
  bool has_target_ = false;
};

}  // namespace

void require_runs(const Device& device, const Submit& submit) {
  if (device.runs(*submit.chip)) return;
  throw StreamError("refused before it reached the NPU: commands for chip " +
                    std::string(submit.chip->name) + ", but " + device.name() + " is " +
                    std::string(device.chip().name));
}

VerifiedJobs verify_streams(const Submit& submit) { return Verifier(submit).verify(); }

std::vector<sim::TaskAccess> verify_alone(const Submit& submit, size_t job, size_t first,
                                          size_t count) {
  return dry_run(submit, true, {sim_job(submit.jobs[job], first, count)});
}

sim::Job sim_job(const JobRef& job, size_t first, size_t count) {
  sim::Job result;
  for (size_t i = first; i < first + count; ++i) {
    const TaskRef& task = job.tasks[i];
    result.tasks.push_back({task.regcmd, task.regcmd_count, task.layer});
  }
  return result;
}

std::vector<JobRef> move_jobs(std::vector<JobRef> jobs, const std::vector<Buffer*>& from,
                              const std::vector<Buffer*>& to, const Chip& chip,
                              const SeeAddress& see) {
  const sim::RegisterTable& known = sim::registers_of(chip);
  const auto moved = [&](const AddressPlace& place) {
    return to[place.index]->dma_address() + place.offset;
  };
  std::set<uint64_t> seen;  // segments that several tasks share are moved once
  for (JobRef& job : jobs) {
    for (TaskRef& task : job.tasks) {
      const auto segment = find_address(from, task.regcmd);
      if (!segment || uint64_t{task.regcmd_count} * kWordBytes >
                          from[segment->index]->bytes().size() - segment->offset) {
        throw StreamError("the commands of a task lie outside the buffers");
      }
      uint8_t* commands = to[segment->index]->bytes().data() + segment->offset;
      const uint32_t count = seen.insert(task.regcmd).second ? task.regcmd_count : 0;
      for (uint32_t i = 0; i < count; ++i, commands += kWordBytes) {
        uint64_t command;
        std::memcpy(&command, commands, kWordBytes);
        const Word word = decode(command);
        const regs::Register* reg = known.find(word.target, word.offset);
        if (reg == nullptr || !reg->is_address) continue;
        const auto place = find_address(from, word.value);
        if (see) see(task, word, place);
        if (!place) continue;
        command = sim::with_value(command, moved(*place));
        std::memcpy(commands, &command, kWordBytes);
      }
      task.regcmd = moved(*segment);
    }
  }
  return jobs;
}

}  // namespace rk3588
