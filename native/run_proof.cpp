#include "run_proof.h"

#include <algorithm>
#include <map>

namespace rk3588 {
namespace {

// Atoms marked per output tensor: the last pixels of its last surface, which are written last.
constexpr uint64_t kMarksPerTensor = 4;
constexpr uint64_t kAtomBytes = 16;

uint8_t* at_address(const std::vector<Buffer*>& memory, uint64_t address, size_t size) {
  for (Buffer* buffer : memory) {
    const Span<uint8_t> bytes = buffer->bytes();
    if (address < buffer->dma_address()) continue;
    const uint64_t offset = address - buffer->dma_address();
    if (offset < bytes.size() && size <= bytes.size() - offset) return bytes.data() + offset;
  }
  return nullptr;
}

}  // namespace

RunProof::RunProof(const std::vector<Binding>& outputs, Buffer& output,
                   Span<const uint64_t> targets, std::vector<std::string> layers,
                   std::vector<Buffer*> memory)
    : layers_(std::move(layers)) {
  uint8_t* base = output.bytes().data();
  for (const Binding& binding : outputs) {
    auto& marks = outputs_.emplace_back();
    const uint64_t pixels = uint64_t{binding.height} * binding.width;
    const uint64_t surface = (binding.channels + kAtomBytes - 1) / kAtomBytes - 1;
    const uint64_t last = binding.offset + (binding.images - 1) * binding.image_stride_bytes +
                          surface * binding.surface_stride_bytes;
    for (uint64_t i = 0; i < std::min(pixels, kMarksPerTensor); ++i) {
      marks.push_back(base + last + (pixels - 1 - i) * kAtomBytes);
    }
  }
  std::map<uint64_t, size_t> last_writer;
  for (size_t i = 0; i < targets.size(); ++i) {
    targets_.push_back(at_address(memory, targets[i], RunMark::kBytes));
    const auto [entry, is_new] = last_writer.insert({targets[i], i});
    if (is_new) continue;
    targets_[entry->second] = nullptr;
    entry->second = i;
  }
}

void RunProof::mark(bool tasks) {
  mark_.renew();
  for (const auto& marks : outputs_) {
    for (uint8_t* place : marks) mark_.put(place);
  }
  tasks_marked_ = tasks;
  if (!tasks) return;
  for (uint8_t* place : targets_) {
    if (place != nullptr) mark_.put(place);
  }
}

int RunProof::unwritten() const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const auto& marks = outputs_[i];
    const bool untouched = std::all_of(marks.begin(), marks.end(),
                                       [&](const uint8_t* place) { return mark_.is_at(place); });
    if (untouched) return static_cast<int>(i);
  }
  return -1;
}

std::string RunProof::progress() const {
  const std::string total = std::to_string(layers_.size());
  if (layers_.empty()) return {};
  if (layers_.size() == 1) return "the only task is " + layers_[0];
  if (tasks_marked_) {
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (targets_[i] != nullptr && mark_.is_at(targets_[i])) {
        return "the first task without a result is " + layers_[i] + " (" + std::to_string(i + 1) +
               " of " + total + ")";
      }
    }
    return "every task began to write; the last is " + layers_.back();
  }
  return "one of the " + total + " tasks from " + layers_.front() + " to " + layers_.back() +
         " (option verify=sim names it)";
}

}  // namespace rk3588
