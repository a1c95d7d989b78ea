// Runs whose input or output is memory that others share, read or written by the device itself.

#include <algorithm>
#include <cstring>
#include <utility>

#include "program/binding_conversion.h"
#include "program/executable.h"

namespace rk3588 {
namespace {

// Memories that take turns, as the buffers of a camera do. More of them push out the oldest.
constexpr size_t kMostPlaced = 32;

// Whether the device has the tensor's bytes in the host's order: pixels of one atom each, or one
// pixel whose atoms follow each other. Behind a result the device may write more, which is padding
// of its channels; behind an operand it would read what must be the padding's value.
bool has_host_layout(const Binding& binding, bool is_result) {
  const Box& box = binding.boxes.front();
  const ImageLayout layout = image_layout(binding, box);
  const size_t atoms = (layout.pixel_bytes() + kAtomBytes - 1) / kAtomBytes;
  const bool is_whole = layout.pixel_bytes() == atoms * kAtomBytes;
  if (binding.is_converted() || layout.flip() != 0 || box.is_folded() || box.is_spread) {
    return false;
  }
  if (box.offset != 0 || (!is_result && (!is_whole || box.surfaces != atoms))) return false;
  const bool is_one_pixel = layout.pixels == 1 && layout.surface_stride_bytes == kAtomBytes;
  if (!is_one_pixel && !(is_whole && atoms == 1)) return false;
  return box.images == 1 || box.image_stride_bytes == layout.pixels * layout.pixel_bytes();
}

bool is_alone(const std::vector<Binding>& bindings, bool is_result) {
  return bindings.size() == 1 && bindings.front().boxes.size() == 1 &&
         has_host_layout(bindings.front(), is_result);
}

}  // namespace

std::vector<Reloc> edge_relocs(const Program& program) {
  std::vector<Reloc> found;
  if (!is_alone(program.inputs, false) && !is_alone(program.outputs, true)) return found;
  for (const Reloc& reloc : program.relocs) {
    const auto id = static_cast<BufferId>(reloc.buffer);
    if (id == BufferId::kConstants || id == BufferId::kScratch) continue;
    found.push_back(reloc);
  }
  return found;
}

Executable::Executable(Executable& base, const SharedEdges& edges, Buffers buffers)
    : device_(base.device_),
      name_(base.name_),
      inputs_(base.inputs_),
      outputs_(base.outputs_),
      buffers_(std::move(buffers)),
      quantize_rule_(base.quantize_rule_),
      edges_(edges),
      between_(base.between_.size()),
      submit_(base.submit_),
      is_verifier_(base.is_verifier_),
      owner_(base.owner_) {
  const Span<uint8_t> commands = base.buffer(BufferId::kRegcmd)->bytes();
  auto& regcmd = buffers_[static_cast<size_t>(BufferId::kRegcmd)];
  regcmd = device_->allocate(commands.size(), BufferId::kRegcmd);
  std::memcpy(regcmd->bytes().data(), commands.data(), commands.size());
  relocate(base.edge_relocs_);
  const uint64_t moved = regcmd->dma_address() - base.buffer(BufferId::kRegcmd)->dma_address();
  for (JobRef& job : submit_.jobs) {
    for (TaskRef& task : job.tasks) task.regcmd += moved;
  }
  submit_.inputs.clear();
  submit_.outputs.clear();
  build_submit(false);
  prepare_submission();
  device_->sync_for_device(*regcmd);
}

SharedEdges Executable::in_place(SharedEdges edges) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto keeps = [this](const std::shared_ptr<SharedMemory>& memory, BufferId id,
                            const std::vector<Binding>& bindings) {
    return memory != nullptr && is_alone(bindings, id == BufferId::kOutput) &&
           memory->bytes().size() >= buffer(id)->bytes().size();
  };
  const bool is_compared = is_replaced_ || verdict_ || verifies_;
  if (is_compared || edge_relocs_.empty()) return {};
  if (!keeps(edges.input, BufferId::kInput, inputs_)) edges.input = nullptr;
  if (!keeps(edges.output, BufferId::kOutput, outputs_)) edges.output = nullptr;
  // What is written is nobody's input, and has to be writable.
  if (edges.output == edges.input || (edges.output && !edges.output->is_writable())) {
    edges.output = nullptr;
  }
  if (edges.input == nullptr && edges.output == nullptr) return {};
  return placed(edges) == nullptr ? SharedEdges{} : edges;
}

void Executable::drop_released() {
  const auto is_released = [](const std::shared_ptr<SharedMemory>& memory) {
    return memory != nullptr && memory->is_released();
  };
  const auto ended = std::remove_if(placed_.begin(), placed_.end(), [&](const auto& known) {
    return is_released(known.first.input) || is_released(known.first.output);
  });
  placed_.erase(ended, placed_.end());
}

// The executable for these memories; nullptr: the device cannot reach them, as it was found once.
Executable* Executable::placed(const SharedEdges& edges) {
  drop_released();
  const auto found = std::find_if(placed_.begin(), placed_.end(), [&edges](const auto& known) {
    return known.first.input == edges.input && known.first.output == edges.output;
  });
  if (found != placed_.end()) return found->second.get();
  if (placed_.size() >= kMostPlaced) placed_.erase(placed_.begin());
  std::unique_ptr<Executable> made;
  try {
    made = place(edges);
  } catch (const DeviceError&) {
    // A driver may refuse what another one gave: then its values are converted.
  }
  return placed_.emplace_back(edges, std::move(made)).second.get();
}

std::unique_ptr<Executable> Executable::place(const SharedEdges& edges) {
  Buffers buffers = buffers_;
  const auto adopt = [&](BufferId id, const std::shared_ptr<SharedMemory>& memory) {
    std::shared_ptr<Buffer>& place = buffers[static_cast<size_t>(id)];
    if (memory != nullptr) place = device_->adopt(memory, id);
    return memory == nullptr || place != nullptr;
  };
  if (!adopt(BufferId::kInput, edges.input) || !adopt(BufferId::kOutput, edges.output)) {
    return nullptr;
  }
  return std::unique_ptr<Executable>(  // NOLINT
      new Executable(*this, edges, std::move(buffers)));
}

RunTimes Executable::run_in_place(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs,
                                  const SharedEdges& edges) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Executable* other = placed(edges);
  if (other == nullptr) throw DeviceError(device_->name() + " cannot reach shared memory");
  RunTimes times = other->run_on_device(inputs, outputs);
  times.in_place = (edges.input != nullptr ? 1 : 0) + (edges.output != nullptr ? 1 : 0);
  return times;
}

}  // namespace rk3588
