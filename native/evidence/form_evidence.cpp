#include "evidence/form_evidence.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <future>
#include <random>
#include <set>
#include <utility>

#include "evidence/isolation.h"
#include "evidence/record.h"
#include "host/devices.h"
#include "program/executable.h"
#include "program/host_values.h"
#include "program/result_difference.h"

namespace rk3588 {
namespace {

constexpr size_t kMostLine = 200;

// Whether option cache_dir is a path; with "auto" and "off" evidence is in the user's own folder.
bool names_a_folder(const std::string& cache_dir) {
  return cache_dir != "auto" && cache_dir != "off";
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.substr(0, std::min(line.find('\0'), kMostLine));
}

BoardKey board_key(const Device& device, const std::string& cores) {
  utsname system{};
  uname(&system);
  const std::string driver = device.driver();
  return {
      {"chip", std::string(device.chip().name)},
      {"driver", driver.empty() ? device.name() : driver},
      {"kernel", std::string(system.release) + " " + system.version},
      {"board", first_line("/proc/device-tree/model")},
      {"cores", cores},
      {"delegate", std::string(kDelegateVersion)},
  };
}

// All that evidence is kept of, in the order of the tasks.
std::vector<std::string> names_of(const Program& program) {
  std::vector<std::string> found;
  std::set<std::string> seen;
  for (const ProgramTask& task : program.tasks) {
    for (std::string& name : names_of(task)) {
      if (seen.insert(name).second) found.push_back(std::move(name));
    }
  }
  found.push_back(program.id);
  return found;
}

using Random = std::mt19937_64;

float moderate(Random* random) {
  const uint64_t bits = (*random)();
  const int exponent = static_cast<int>(bits % 8) - 6;
  const float fraction = 1.0F + static_cast<float>(bits >> 8 & 0xffff) / 65536.0F;
  return std::ldexp((bits >> 63) != 0 ? -fraction : fraction, exponent);
}

std::vector<uint8_t> bytes(size_t count, Random* random) {
  std::vector<uint8_t> found(count);
  for (uint8_t& byte : found) byte = static_cast<uint8_t>((*random)() >> 56);
  return found;
}

// Makes dense host tensors in the order of the bindings, for a program that nobody has run yet: the
// same for the same program. Integers are any. float32 becomes any byte where the device has bytes,
// else it is finite, with magnitudes of 1/64 to 4.
Tensors generated_inputs(const std::vector<Binding>& inputs) {
  Random random;
  Tensors found;
  for (const Binding& input : inputs) {
    std::vector<uint8_t>& tensor = found.emplace_back(input.host_bytes());
    if (input.element != Element::kFp32) {
      tensor = bytes(tensor.size(), &random);
    } else if (input.is_affine()) {
      dequantize(input.affine, bytes(input.elements(), &random).data(), input.elements(),
                 tensor.data());
    } else {
      for (size_t i = 0; i < input.elements(); ++i) {
        const float value = moderate(&random);
        std::memcpy(tensor.data() + i * sizeof(value), &value, sizeof(value));
      }
    }
  }
  return found;
}

// How a device's results differ from those that are expected, "": they do not. Throws DeviceError.
std::string difference(const Program& program, const std::shared_ptr<Device>& device,
                       uint32_t timeout_ms, Span<const uint8_t* const> inputs,
                       const Tensors& expected) {
  Executable executable(program, {device, timeout_ms, nullptr, 0, nullptr, 0});
  Tensors found = expected;
  executable.run(inputs, places(&found));
  return result_difference(program.outputs, places(&found), expected);
}

// The same of all cores at the same time; the first that is wrong. Throws DeviceError.
std::string difference_together(const Program& program,
                                const std::vector<std::shared_ptr<Device>>& cores,
                                uint32_t timeout_ms, Span<const uint8_t* const> inputs,
                                const Tensors& expected) {
  std::vector<std::future<std::string>> runs;
  for (const auto& core : cores) {
    runs.push_back(std::async(std::launch::async, [&, core] {
      return difference(program, core, timeout_ms, inputs, expected);
    }));
  }
  std::string text;
  for (auto& run : runs) run.wait();
  for (auto& run : runs) {
    const std::string found = run.get();
    if (text.empty()) text = found;
  }
  return text;
}

}  // namespace

std::shared_ptr<FormEvidence> FormEvidence::of(std::shared_ptr<Device> device,
                                               const EvidenceSettings& settings, Warn warn) {
  const bool is_npu = !device->driver().empty();
  const bool wanted = settings.prove == "always" ? device->computes() : is_npu;
  if (settings.prove == "off" || !wanted) return nullptr;
  return std::shared_ptr<FormEvidence>(
      new FormEvidence(std::move(device), settings, std::move(warn)));
}

FormEvidence::FormEvidence(std::shared_ptr<Device> device, const EvidenceSettings& settings,
                           Warn warn)
    : device_(std::move(device)),
      timeout_ms_(settings.timeout_ms),
      warn_(std::move(warn)),
      board_(BoardEvidence::of(
          names_a_folder(settings.cache_dir) ? settings.cache_dir : default_cache_folder(),
          board_key(*device_, settings.cores))) {}

std::vector<MissingForm> FormEvidence::missing(const Program& program) {
  // A simulator runs the programs of other chips, too.
  if (program.chip->name != device_->chip().name) return {};
  std::vector<MissingForm> found;
  {
    const std::lock_guard<std::mutex> lock(board_->mutex);
    Record& record = board_->record;
    const auto is_settled = [&] {
      found = refused(program);
      const std::string state = record.state(program.id);
      return !found.empty() || state == kRan || state == kVerified;
    };
    if (!is_settled()) {
      const RecordLock file_lock(record.path());
      record.read();
      if (!is_settled()) {
        const std::string before = record.state(program.id);
        try {
          examine(program, before);
        } catch (...) {
          record.set(program.id, before);
          throw;
        }
        found = refused(program);
      }
    }
  }
  // Whoever is told may take other locks.
  tell(found);
  return found;
}

ProgramGate::Verdict FormEvidence::admit(const Program& program) {
  if (program.chip->name != device_->chip().name) return nullptr;
  const std::vector<MissingForm> lacking = missing(program);
  if (!lacking.empty()) {
    const auto& [name, reason] = lacking.front();
    throw DeviceError(device_->name() + ": program " + program.name +
                      " must not run on this board: " + name + " " + reason +
                      "; use the original model, which is compiled without it; " + where());
  }
  const std::lock_guard<std::mutex> lock(board_->mutex);
  if (board_->record.state(program.id) == kVerified) return nullptr;
  return [board = board_, id = program.id, names = names_of(program),
          place = device_->name() + ": program " + program.name](const Shortfall* found) {
    {
      const std::lock_guard<std::mutex> guard(board->mutex);
      const RecordLock file_lock(board->record.path());
      board->record.read();
      if (found == nullptr) {
        for (const std::string& name : names) board->forgive(name);
        board->record.set(id, kVerified);
        return;
      }
      if (found->kind == Shortfall::Kind::kHangs) {
        board->blame(id, *found);
      } else {
        board->record.set(id, std::string(kWrong) + ": " + found->text);
      }
    }
    std::fprintf(stderr,
                 "rk3588 delegate: warning: %s: its first inference here was not the simulator's: "
                 "%s; this process goes on with the simulator's results, and what is loaded next "
                 "does without what is wrong\n",
                 place.c_str(), found->text.c_str());
  };
}

std::map<std::string, std::string> FormEvidence::states() {
  const std::lock_guard<std::mutex> lock(board_->mutex);
  board_->record.read();
  return board_->record.states();
}

void FormEvidence::prove(const std::map<std::string, std::string>& states) {
  const std::lock_guard<std::mutex> lock(board_->mutex);
  const RecordLock file_lock(board_->record.path());
  board_->record.read();
  for (const auto& [name, state] : states) {
    const std::string before = board_->record.state(name);
    if (before.empty() || is_state(before, kProved)) board_->record.set(name, state);
  }
}

void FormEvidence::forget() {
  const std::lock_guard<std::mutex> lock(board_->mutex);
  const RecordLock file_lock(board_->record.path());
  board_->record.forget_all();
}

std::string FormEvidence::record_path() const { return board_->record.path(); }

std::string FormEvidence::problem() {
  const std::lock_guard<std::mutex> lock(board_->mutex);
  return board_->record.problem();
}

std::vector<MissingForm> FormEvidence::refused(const Program& program) const {
  std::vector<MissingForm> found;
  for (std::string& name : names_of(program)) {
    std::string reason = board_->refusal(name);
    if (!reason.empty()) found.push_back({std::move(name), std::move(reason)});
  }
  return found;
}

// Runs the program on generated inputs, and finds out what is wrong if it does not compute what the
// simulator does.
void FormEvidence::examine(const Program& program, const std::string& before) {
  Record& record = board_->record;
  if (before == kStartedAgain) {
    record.set(program.id, std::string(kHung) + ": twice nobody lived to see its end");
    return;
  }
  Executable simulated(program, {make_simulator_device(*program.chip), 0, nullptr, 0, nullptr, 0});
  Tensors generated = generated_inputs(program.inputs);
  const std::vector<uint8_t*> inputs = places(&generated);
  Tensors expected;
  for (const Binding& binding : program.outputs) expected.emplace_back(binding.host_bytes());
  simulated.run(inputs, places(&expected));
  if (is_state(before, kWrong)) {
    isolate(program, &simulated, before);
    return;
  }
  record.set(program.id, before.empty() ? kStarted : kStartedAgain);
  std::string text;
  try {
    text = difference(program, device_, timeout_ms_, inputs, expected);
  } catch (const UnfinishedRun& error) {
    const Shortfall shortfall{Shortfall::Kind::kHangs, error.what()};
    if (is_state(before, kSuspected)) record.set(program.id, before);
    if (error.task && !program.tasks[*error.task].form.empty()) {
      blame(program, {{{names_of(program.tasks[*error.task]).front()}, shortfall}});
    } else {
      isolate(program, &simulated, error.what());
    }
    return;
  }
  if (!text.empty()) {
    isolate(program, &simulated, text);
    return;
  }
  // Others have run the cores of chips whose cores share nothing at the same time.
  const std::vector<std::shared_ptr<Device>> cores = device_->open_cores();
  if (device_->chip().cbuf_is_shared != 0 && cores.size() > 1) {
    Shortfall shortfall;
    try {
      shortfall.text = difference_together(program, cores, timeout_ms_, inputs, expected);
    } catch (const UnfinishedRun& error) {
      shortfall = {Shortfall::Kind::kHangs, error.what()};
    }
    if (!shortfall.text.empty()) {
      shortfall.text += "; one core alone computes it: option cores=0";
      blame(program, {{{program.id}, shortfall}});
      return;
    }
  }
  for (const std::string& name : names_of(program)) {
    if (name != program.id) board_->forgive(name);
  }
  // Its first inference did not end once: that one decides.
  record.set(program.id, is_state(before, kSuspected) ? before : kRan);
}

void FormEvidence::isolate(const Program& program, Executable* simulated, const std::string& text) {
  std::vector<TaskFault> faults = find_faults(program, simulated, device_, timeout_ms_);
  if (faults.empty()) {
    faults.push_back({{program.id}, {Shortfall::Kind::kDiffers, text}});
  }
  blame(program, faults);
}

void FormEvidence::blame(const Program& program, const std::vector<TaskFault>& faults) {
  bool is_itself = false;
  for (const TaskFault& fault : faults) {
    for (const std::string& name : fault.names) {
      board_->blame(name, fault.shortfall);
      is_itself = is_itself || name == program.id;
    }
  }
  if (!is_itself) board_->record.forget(program.id);
}

std::string FormEvidence::where() const {
  return board_->record.path().empty() ? "what boards show is not kept: " + board_->record.problem()
                                       : "`doctor --forget` has it tried again";
}

void FormEvidence::tell(const std::vector<MissingForm>& found) {
  std::vector<std::string> texts;
  {
    const std::lock_guard<std::mutex> lock(board_->mutex);
    for (const auto& [name, reason] : found) {
      if (!board_->is_news(name)) continue;
      texts.push_back(name + " is switched off on this board (" + reason + "); " + where());
    }
    const std::string& problem = board_->record.problem();
    if (!problem.empty() && board_->is_news(problem)) {
      texts.push_back("what boards show is not kept: " + problem +
                      "; every process tries every program again; option cache_dir names a folder");
    }
  }
  for (const std::string& text : texts) warn_(text);
}

}  // namespace rk3588
