#include "program/executable.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "host/devices.h"
#include "host/drm_file.h"
#include "program/binding_conversion.h"
#include "sim/pc.h"

namespace rk3588 {
namespace {

std::atomic<uint64_t> g_submits{0};

// The buffers that a run changes.
constexpr std::initializer_list<BufferId> kChanging = {BufferId::kScratch, BufferId::kInput,
                                                       BufferId::kOutput};

void require_chip(const Program& program, const Device& device) {
  if (device.runs(*program.chip)) return;
  throw ProgramError("program " + program.name + " was compiled for chip " +
                     std::string(program.chip->name) + ", device " + device.name() + " is " +
                     std::string(device.chip().name) + "; compile the model for it");
}

}  // namespace

std::vector<uint8_t*> places(Tensors* tensors) {
  std::vector<uint8_t*> found;
  for (auto& tensor : *tensors) found.push_back(tensor.data());
  return found;
}

uint64_t submit_count() { return g_submits.load(std::memory_order_relaxed); }

Executable::Executable(Span<const uint8_t> bytes, const RunSettings& settings)
    : Executable(read_program(bytes), settings) {}

Executable::Executable(const Program& program, const RunSettings& settings)
    : device_(settings.device),
      name_(program.name),
      inputs_(program.inputs),
      outputs_(program.outputs),
      quantize_rule_(quantize_rule()),
      verify_every_(settings.verify_every),
      is_verifier_(settings.is_verifier),
      owner_(getpid()) {
  require_chip(program, *device_);
  if (settings.gate != nullptr) verdict_ = settings.gate->admit(program);
  verifies_ = settings.verifier != nullptr;
  const bool is_read_again = verifies_ || verdict_;
  allocate_and_upload(program, is_read_again ? nullptr : settings.spend);
  relocate(program.relocs);
  fill_unused_surfaces();
  make_room_between();
  build_jobs(program);
  const bool writes_input = writes_inputs(program);
  build_submit(writes_input);
  if (!writes_input) edge_relocs_ = edge_relocs(program);
  submit_.chip = program.chip;
  submit_.timeout_ms = settings.timeout_ms;
  submit_.threads = settings.threads;
  submit_.outputs_hold_content = settings.holds_content;
  prepare_submission();
  for (const auto& buffer : buffers_) {
    const bool is_shared = buffer.get() == this->buffer(BufferId::kConstants);
    if (buffer != nullptr && !is_shared) device_->sync_for_device(*buffer);
  }
  if (!is_read_again) return;
  RunSettings twice;
  twice.device = verifies_ ? settings.verifier : make_simulator_device(*program.chip);
  twice.is_verifier = true;
  twice.threads = verifies_ ? settings.threads : 0;
  verifier_ = std::make_unique<Executable>(program, twice);
  for (const Binding& binding : outputs_) verified_.emplace_back(binding.host_bytes());
}

Executable::~Executable() {
  // A forked child has no thread that would end it.
  if (owner_ != getpid()) {
    static_cast<void>(std::make_unique<std::future<bool>>(std::move(sample_)).release());
  }
}

std::shared_ptr<RunCounters> Executable::counters() const {
  return stats_->counters({device_->name(), name_, outputs_.empty() ? "" : outputs_.front().name});
}

void Executable::allocate_and_upload(const Program& program, Spend spend) {
  for (size_t i = 0; i < kBufferCount; ++i) {
    const ProgramBuffer& source = program.buffers[i];
    if (source.size == 0) continue;
    if (static_cast<BufferId>(i) == BufferId::kConstants) {
      buffers_[i] = device_->constants(source.content, static_cast<size_t>(source.size), spend);
      continue;
    }
    buffers_[i] = device_->allocate(static_cast<size_t>(source.size), static_cast<BufferId>(i));
    const Span<uint8_t> target = buffers_[i]->bytes();
    if (source.content.size() > 0) {
      std::memcpy(target.data(), source.content.data(), source.content.size());
    }
    // Defined content everywhere, whatever the device's allocator leaves behind.
    if (buffers_[i]->is_zeroed()) continue;
    std::memset(target.data() + source.content.size(), 0, target.size() - source.content.size());
  }
}

// A regcmd word is target[63:48] | value[47:16] | offset[15:0]; an address goes into the value.
void Executable::relocate(const std::vector<Reloc>& relocs) {
  Buffer* regcmd = buffer(BufferId::kRegcmd);
  for (const Reloc& reloc : relocs) {
    const uint64_t address = buffers_[reloc.buffer]->dma_address() + reloc.addend;
    if (address > UINT32_MAX) {
      throw DeviceError("device " + device_->name() + " gave an address beyond 32 bits");
    }
    uint8_t* place = regcmd->bytes().data() + size_t{reloc.word} * sizeof(uint64_t);
    uint64_t word;
    std::memcpy(&word, place, sizeof(word));
    word = sim::with_value(word, address);
    std::memcpy(place, &word, sizeof(word));
  }
}

// Surfaces without any channel are never touched by run(): they get their fill once.
void Executable::fill_unused_surfaces() {
  for (const Binding& binding : inputs_) {
    const Box& box = binding.boxes.front();
    const size_t used = (image_layout(binding, box).pixel_bytes() + kAtomBytes - 1) / kAtomBytes;
    uint8_t* base = buffer(BufferId::kInput)->bytes().data() + box.offset;
    for (size_t n = 0; n < box.images; ++n) {
      for (size_t surface = used; surface < box.surfaces; ++surface) {
        std::memset(base + n * box.image_stride_bytes + surface * box.surface_stride_bytes,
                    static_cast<uint8_t>(box.fill), size_t{box.height} * box.width * kAtomBytes);
      }
    }
  }
}

void Executable::make_room_between() {
  size_t most = 0;
  for (const auto* bindings : {&inputs_, &outputs_}) {
    for (const Binding& binding : *bindings) most = std::max(most, bytes_between(binding));
  }
  between_.resize(most);
}

// Parts of a concatenation beside an input of the program are computed into its memory.
bool Executable::writes_inputs(const Program& program) const {
  const sim::RegisterTable& known = sim::registers_of(*program.chip);
  const uint8_t* words = buffer(BufferId::kRegcmd)->bytes().data();
  return std::any_of(program.relocs.begin(), program.relocs.end(), [&](const Reloc& reloc) {
    uint64_t command;
    std::memcpy(&command, words + size_t{reloc.word} * sizeof(command), sizeof(command));
    const sim::Word word = sim::decode(command);
    return reloc.buffer == static_cast<uint32_t>(BufferId::kInput) &&
           known.is_output(word.target, word.offset);
  });
}

void Executable::build_jobs(const Program& program) {
  const uint64_t regcmd = buffer(BufferId::kRegcmd)->dma_address();
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    const ProgramTask& task = program.tasks[i];
    if (i == 0 || task.job != program.tasks[i - 1].job) submit_.jobs.emplace_back();
    std::string label = program.layers[task.layer];
    if (!task.tile.empty()) label += " " + task.tile;
    submit_.jobs.back().tasks.push_back(
        {regcmd + task.regcmd_offset, task.regcmd_count, task.enable_mask, std::move(label)});
  }
}

void Executable::build_submit(bool writes_input) {
  for (const BufferId id : {BufferId::kRegcmd, BufferId::kConstants}) {
    if (buffer(id) != nullptr) submit_.inputs.push_back(buffer(id));
  }
  Buffer* input = buffer(BufferId::kInput);
  if (input != nullptr) {
    (writes_input ? submit_.outputs : submit_.inputs).push_back(input);
  }
  // The last one is the output: drivers wait for it.
  for (const BufferId id : {BufferId::kScratch, BufferId::kOutput}) {
    if (buffer(id) != nullptr) submit_.outputs.push_back(buffer(id));
  }
  submit_.host_input = buffer(BufferId::kInput);
}

void Executable::prepare_submission() {
  submission_ = device_->prepare(submit_);
  if (!submission_->task_targets().empty()) {
    progress_ = std::make_unique<RunProgress>(*submission_, submit_);
  }
}

RunTimes Executable::run(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  drop_released();
  if (is_replaced_) return verifier_->run(inputs, outputs);
  if (verdict_) return run_first(inputs, outputs);
  const RunTimes times = run_on_device(inputs, outputs);
  if (!verifies_) return times;
  if (verify_every_ == 0) {
    run_verifier(inputs, outputs);
  } else if (unverified_++ % verify_every_ == 0) {
    take_sample(inputs, outputs);
  }
  return times;
}

RunTimes Executable::run_on_device(Span<const uint8_t* const> inputs,
                                   Span<uint8_t* const> outputs) {
  RunTimes times{};
  times.start = monotonic_ns();
  give_inputs(inputs);
  times.converted = monotonic_ns();
  if (!is_verifier_) g_submits.fetch_add(1, std::memory_order_relaxed);
  try {
    run_submission(inputs, &times);
  } catch (const DeviceError& error) {
    fail(error);
  }
  Buffer* output = buffer(BufferId::kOutput);
  if (edges_.output == nullptr) device_->sync_for_cpu(*output);
  times.done = monotonic_ns();
  was_run_ = true;
  for (size_t i = 0; i < outputs_.size() && edges_.output == nullptr; ++i) {
    from_device(outputs_[i], output->bytes().data(), between_.data(), outputs[i]);
  }
  times.end = monotonic_ns();
  if (!is_verifier_ && run_log_enabled()) add_to_run_log(name_, times);
  return times;
}

void Executable::give_inputs(Span<const uint8_t* const> inputs) {
  submission_->begin();
  Buffer* input = buffer(BufferId::kInput);
  const bool is_there = edges_.input != nullptr;
  for (size_t i = 0; i < inputs_.size() && !is_there; ++i) {
    to_device(inputs_[i], quantize_rule_, inputs[i], between_.data(), input->bytes().data());
  }
  if (progress_ != nullptr) give_marked();
  if (input != nullptr && !is_there) device_->sync_for_device(*input);
}

// An interrupted run is repeated once, from its beginning: memory that its tasks shared is no
// longer what the first of them read.
void Executable::run_submission(Span<const uint8_t* const> inputs, RunTimes* times) {
  int64_t waited_ns = 0;
  try {
    waited_ns = submission_->run();
  } catch (const InterruptedRun&) {
    was_run_ = false;  // all memory is given to the device again
    give_inputs(inputs);
    times->repeats = 1;
    waited_ns = submission_->run();
  }
  if (waited_ns != 0) times->submitted = monotonic_ns() - waited_ns;
}

// The first run and verified ones can say where they stopped.
void Executable::give_marked() {
  const bool tasks = !was_run_ || (verifies_ && verify_every_ == 0);
  progress_->mark(tasks);
  for (Buffer* written : submit_.outputs) {
    // The input goes to the device in any case.
    if (tasks && written != buffer(BufferId::kInput)) device_->sync_for_device(*written);
  }
}

void Executable::fail(const DeviceError& error) {
  if (progress_ == nullptr) throw;
  was_run_ = false;  // the next run gives all memory to the device again
  try {
    for (Buffer* written : submit_.outputs) device_->sync_for_cpu(*written);
  } catch (const DeviceError&) {
    // The device may be gone or still busy: then the marks tell less, or what the host saw last.
  }
  const std::string text = std::string(error.what()) + "; " + progress_->text();
  const auto* kernel_error = dynamic_cast<const KernelError*>(&error);
  if (kernel_error != nullptr && kernel_error->is_of_the_system()) throw DeviceError(text);
  throw UnfinishedRun(text, progress_->stopped_at());
}

MemoryImage Executable::memory() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return content_of(kChanging);
}

MemoryImage Executable::content_of(std::initializer_list<BufferId> ids) {
  MemoryImage found;
  for (const BufferId id : ids) {
    if (buffer(id) == nullptr) continue;
    device_->sync_for_cpu(*buffer(id));
    const Span<uint8_t> bytes = buffer(id)->bytes();
    found[static_cast<size_t>(id)].assign(bytes.data(), bytes.data() + bytes.size());
  }
  return found;
}

void Executable::run_on(MemoryImage* memory) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    submission_->begin();
    for (const BufferId id : kChanging) {
      if (buffer(id) == nullptr) continue;
      const std::vector<uint8_t>& content = (*memory)[static_cast<size_t>(id)];
      std::copy(content.begin(), content.end(), buffer(id)->bytes().data());
    }
    // Tasks may read what lies at their targets.
    if (progress_ != nullptr) progress_->mark(false);
    for (const BufferId id : kChanging) {
      if (buffer(id) != nullptr) device_->sync_for_device(*buffer(id));
    }
    try {
      submission_->run();
    } catch (const DeviceError& error) {
      fail(error);
    }
  }
  *memory = this->memory();
}

}  // namespace rk3588
