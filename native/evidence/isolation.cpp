#include "evidence/isolation.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <sstream>
#include <utility>

#include "host/devices.h"
#include "host/drm_file.h"
#include "host/stream_verifier.h"
#include "program/result_difference.h"
#include "sim/pc.h"

namespace rk3588 {
namespace {

namespace pc = sim::regs::pc;

constexpr char kHalf[] = "fp";  // in the kind of a form, whose digits have no p

uint64_t written_bytes(const VerifiedTask& task) {
  uint64_t bytes = 0;
  for (const sim::AddressRange& range : task.access.writes) bytes += range.end - range.begin;
  return bytes;
}

uint64_t link_word(uint64_t address) {
  const uint64_t word = uint64_t{pc::kTarget} << 48 | pc::base_address::kOffset;
  return sim::with_value(word, address);
}

// Some tasks of a program as one job, each linked to the next one.
struct Part {
  Part(const Program& whole, const std::vector<size_t>& tasks) : program(whole) {
    const ProgramBuffer& source = whole.buffers[static_cast<size_t>(BufferId::kRegcmd)];
    commands.assign(source.content.data(), source.content.data() + source.content.size());
    commands.resize(source.size);  // zeros behind the content, which commands may lie in
    program.tasks.clear();
    for (const size_t task : tasks) {
      program.tasks.push_back(whole.tasks[task]);
      ProgramTask& taken = program.tasks.back();
      taken.job = 0;
    }
    std::map<uint32_t, Reloc> links;
    for (size_t i = 0; i < program.tasks.size(); ++i) {
      link(program.tasks[i], i + 1 < program.tasks.size() ? &program.tasks[i + 1] : nullptr,
           &links);
    }
    for (const Reloc& reloc : whole.relocs) {
      const bool is_link = reloc.buffer == static_cast<uint32_t>(BufferId::kRegcmd);
      if (!is_link) links.insert({reloc.word, reloc});
    }
    program.relocs.clear();
    for (const auto& [word, reloc] : links) program.relocs.push_back(reloc);
    program.buffers[static_cast<size_t>(BufferId::kRegcmd)].content = commands;
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  uint64_t word(size_t index) const {
    uint64_t found;
    std::memcpy(&found, commands.data() + index * sizeof(found), sizeof(found));
    return found;
  }
  void put(size_t index, uint64_t value) {
    std::memcpy(commands.data() + index * sizeof(value), &value, sizeof(value));
  }

  // The tail is link, amount, barrier and start; zeros may follow.
  void link(const ProgramTask& task, const ProgramTask* next, std::map<uint32_t, Reloc>* links) {
    const size_t first = task.regcmd_offset / sizeof(uint64_t);
    size_t end = first + task.regcmd_count;
    while (end > first && word(end - 1) == 0) --end;
    const size_t tail = end - 4;
    const uint32_t amount = next == nullptr ? 0 : (next->regcmd_count + 1) / 2 - 1;
    put(tail, next == nullptr ? 0 : link_word(0));
    put(tail + 1, sim::with_value(word(tail + 1), amount));
    if (next == nullptr) return;
    const auto place = static_cast<uint32_t>(tail);
    links->insert({place, {place, static_cast<uint32_t>(BufferId::kRegcmd), next->regcmd_offset}});
  }

  Program program;
  std::vector<uint8_t> commands;
};

// Runs parts of a program on the device and on the simulator, on the same memory.
class Isolation {
 public:
  // `simulated`: the program on the simulator, behind a run. All must outlive this. Throws
  // DeviceError.
  Isolation(const Program& program, Executable* simulated, std::shared_ptr<Device> device,
            uint32_t timeout_ms)
      : program_(program),
        simulated_(simulated),
        device_(std::move(device)),
        simulator_(make_simulator_device(*program.chip)),
        timeout_ms_(timeout_ms),
        memory_(simulated->memory()) {
    for (std::vector<VerifiedTask>& job : verify_streams(simulated->submit())) {
      for (VerifiedTask& task : job) tasks_.push_back(std::move(task));
    }
    smallest_first_.resize(tasks_.size());
    std::iota(smallest_first_.begin(), smallest_first_.end(), size_t{0});
    std::stable_sort(smallest_first_.begin(), smallest_first_.end(), [this](size_t a, size_t b) {
      return written_bytes(tasks_[a]) < written_bytes(tasks_[b]);
    });
  }

  // Runs every task with what it takes from others in registers, tables and CBUF, those first that
  // write least, until each form was at fault; then, if none was, every task behind the one before
  // it. Stops behind a hang. Throws DeviceError.
  std::vector<TaskFault> find() {
    std::vector<TaskFault> found = find(false);
    return found.empty() ? find(true) : found;
  }

 private:
  // The tasks before it from the first one that takes nothing from others, and the load of its
  // table.
  std::vector<size_t> needed(size_t task) const {
    size_t first = task;
    while (first > 0 && (tasks_[first].access.inherits || tasks_[first].access.reuses_cbuf))
      --first;
    bool needs_load = false;
    for (size_t i = task + 1; i-- > first;) {
      const sim::TaskAccess& access = tasks_[i].access;
      needs_load = access.looks_up || (needs_load && !access.loads_tables);
    }
    std::vector<size_t> found;
    if (needs_load) {
      size_t load = first;
      while (load > 0 && !tasks_[load - 1].access.loads_tables) --load;
      if (load > 0) found.push_back(load - 1);
    }
    for (size_t i = first; i <= task; ++i) found.push_back(i);
    return found;
  }
  std::vector<TaskFault> find(bool behind_others) {
    std::vector<TaskFault> found;
    std::set<std::string> blamed;
    for (const size_t task : smallest_first_) {
      std::vector<std::string> names = names_of(program_.tasks[task]);
      if (names.empty()) names = {program_.id};
      if (blamed.count(names.front()) != 0) continue;
      std::vector<size_t> tasks = needed(task);
      if (behind_others) {
        if (task == 0) continue;
        const size_t alone = tasks.size();
        for (const size_t other : needed(task - 1)) tasks.push_back(other);
        std::sort(tasks.begin(), tasks.end());
        tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
        if (tasks.size() == alone) continue;
        // Alone it was right: what it relies on is at fault.
        if (names.size() > 1) names.erase(names.begin());
      }
      std::optional<Shortfall> problem = shortfall(tasks);
      if (!problem) continue;
      const ProgramTask& source = program_.tasks[task];
      problem->text = program_.layers[source.layer] + ": " + problem->text;
      blamed.insert(names.begin(), names.end());
      found.push_back({std::move(names), std::move(*problem)});
      if (found.back().shortfall.kind == Shortfall::Kind::kHangs) return found;
    }
    return found;
  }
  std::optional<Shortfall> shortfall(const std::vector<size_t>& tasks) {
    const Part part(program_, tasks);
    MemoryImage expected = memory_;
    MemoryImage found = memory_;
    try {
      Executable(part.program, {simulator_, 0, nullptr, 0, nullptr, 0, nullptr, true})
          .run_on(&expected);
      Executable(part.program, {device_, timeout_ms_, nullptr, 0, nullptr, 0, nullptr, true})
          .run_on(&found);
    } catch (const UnfinishedRun& error) {
      return Shortfall{Shortfall::Kind::kHangs, error.what()};
    } catch (const KernelError&) {
      throw;
    } catch (const DeviceError&) {
      return std::nullopt;  // these tasks cannot run by themselves
    }
    const std::vector<uint8_t> ours = written(expected, tasks.back());
    const std::vector<uint8_t> theirs = written(found, tasks.back());
    const bool is_half = program_.tasks[tasks.back()].form.find(kHalf) != std::string::npos;
    if (ours == theirs || (is_half && are_same_halves(theirs, ours))) return std::nullopt;
    size_t different = 0;
    for (size_t i = 0; i < ours.size(); ++i) different += ours[i] != theirs[i] ? 1 : 0;
    return Shortfall{Shortfall::Kind::kDiffers, std::to_string(different) + " of " +
                                                    std::to_string(ours.size()) +
                                                    " bytes of a task differ from the simulator"};
  }
  // The bytes that the task wrote, out of the memory behind it.
  std::vector<uint8_t> written(const MemoryImage& memory, size_t task) const {
    std::vector<uint8_t> found;
    const sim::TaskAccess& access = tasks_[task].access;
    for (size_t i = 0; i < access.real_writes; ++i) {
      const sim::AddressRange& range = access.writes[i];
      for (size_t id = 0; id < kBufferCount; ++id) {
        const Buffer* buffer = simulated_->buffers()[id].get();
        if (memory[id].empty() || range.begin < buffer->dma_address()) continue;
        const uint64_t offset = range.begin - buffer->dma_address();
        const uint64_t size = range.end - range.begin;
        if (offset >= memory[id].size() || size > memory[id].size() - offset) continue;
        const auto begin = memory[id].begin() + static_cast<ptrdiff_t>(offset);
        found.insert(found.end(), begin, begin + static_cast<ptrdiff_t>(size));
      }
    }
    return found;
  }

  const Program& program_;
  Executable* simulated_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Device> simulator_;
  uint32_t timeout_ms_;
  MemoryImage memory_;
  std::vector<VerifiedTask> tasks_;
  std::vector<size_t> smallest_first_;
};

}  // namespace

std::vector<std::string> names_of(const ProgramTask& task) {
  std::istringstream words(task.form);
  std::vector<std::string> names;
  for (std::string name; words >> name;) names.push_back(name);
  return names;
}

std::vector<TaskFault> find_faults(const Program& program, Executable* simulated,
                                   std::shared_ptr<Device> device, uint32_t timeout_ms) {
  return Isolation(program, simulated, std::move(device), timeout_ms).find();
}

}  // namespace rk3588
