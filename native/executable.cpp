#include "executable.h"

#include <cstring>
#include <utility>

#include "layout.h"

namespace rk3588 {
namespace {

std::atomic<uint64_t> g_submits{0};

ImageLayout image_layout(const Binding& binding) {
  return {size_t{binding.height} * binding.width, binding.channels,
          static_cast<size_t>(binding.surface_stride_bytes), binding.is_uint8, binding.fill};
}

void to_device(const Binding& binding, const uint8_t* host, uint8_t* buffer) {
  const ImageLayout layout = image_layout(binding);
  const size_t image_bytes = binding.host_image_bytes();
  if (binding.is_folded()) {
    const FoldLayout fold{layout, binding.height, binding.width, binding.fold};
    for (size_t n = 0; n < binding.images; ++n) {
      to_folded_layout(fold, host + n * image_bytes, (binding.images - n) * image_bytes,
                       buffer + binding.offset + n * binding.image_stride_bytes);
    }
    return;
  }
  for (size_t n = 0; n < binding.images; ++n) {
    to_device_layout(layout, host + n * image_bytes, (binding.images - n) * image_bytes,
                     buffer + binding.offset + n * binding.image_stride_bytes);
  }
}

void from_device(const Binding& binding, const uint8_t* buffer, uint8_t* host) {
  const ImageLayout layout = image_layout(binding);
  const size_t image_bytes = layout.pixels * layout.channels;
  for (size_t n = 0; n < binding.images; ++n) {
    from_device_layout(layout, buffer + binding.offset + n * binding.image_stride_bytes,
                       host + n * image_bytes, (binding.images - n) * image_bytes);
  }
}

}  // namespace

uint64_t submit_count() { return g_submits.load(std::memory_order_relaxed); }

Executable::Executable(Span<const uint8_t> bytes, std::shared_ptr<Device> device,
                       uint32_t timeout_ms)
    : Executable(read_program(bytes), std::move(device), timeout_ms) {}

Executable::Executable(const Program& program, std::shared_ptr<Device> device, uint32_t timeout_ms)
    : device_(std::move(device)),
      name_(program.name),
      inputs_(program.inputs),
      outputs_(program.outputs) {
  allocate_and_upload(program);
  relocate(program);
  fill_unused_surfaces();
  build_submit(program);
  submit_.timeout_ms = timeout_ms;
  for (const auto& buffer : buffers_) {
    if (buffer != nullptr) device_->sync_for_device(*buffer);
  }
}

void Executable::allocate_and_upload(const Program& program) {
  for (size_t i = 0; i < kBufferCount; ++i) {
    const ProgramBuffer& source = program.buffers[i];
    if (source.size == 0) continue;
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
void Executable::relocate(const Program& program) {
  Buffer* regcmd = buffer(BufferId::kRegcmd);
  for (const Reloc& reloc : program.relocs) {
    const uint64_t address = buffers_[reloc.buffer]->dma_address() + reloc.addend;
    if (address > UINT32_MAX) {
      throw DeviceError("device " + device_->name() + " gave an address beyond 32 bits");
    }
    uint8_t* place = regcmd->bytes().data() + size_t{reloc.word} * sizeof(uint64_t);
    uint64_t word;
    std::memcpy(&word, place, sizeof(word));
    word = (word & ~(uint64_t{UINT32_MAX} << 16)) | (address << 16);
    std::memcpy(place, &word, sizeof(word));
  }
}

// Surfaces without any channel are never touched by run(): they get their fill once.
void Executable::fill_unused_surfaces() {
  for (const Binding& binding : inputs_) {
    const size_t used = (binding.channels + kAtomBytes - 1) / kAtomBytes;
    uint8_t* base = buffer(BufferId::kInput)->bytes().data() + binding.offset;
    for (size_t n = 0; n < binding.images; ++n) {
      for (size_t surface = used; surface < binding.surfaces; ++surface) {
        std::memset(base + n * binding.image_stride_bytes + surface * binding.surface_stride_bytes,
                    static_cast<uint8_t>(binding.fill),
                    size_t{binding.height} * binding.width * kAtomBytes);
      }
    }
  }
}

void Executable::build_submit(const Program& program) {
  const uint64_t regcmd = buffer(BufferId::kRegcmd)->dma_address();
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    const ProgramTask& task = program.tasks[i];
    if (i == 0 || task.job != program.tasks[i - 1].job) submit_.jobs.emplace_back();
    std::string label = program.layers[task.layer];
    if (!task.tile.empty()) label += " " + task.tile;
    submit_.jobs.back().tasks.push_back({regcmd + task.regcmd_offset, task.regcmd_count,
                                         task.enable_mask, task.int_mask, std::move(label)});
  }
  for (const BufferId id : {BufferId::kRegcmd, BufferId::kConstants, BufferId::kInput}) {
    if (buffer(id) != nullptr) submit_.inputs.push_back(buffer(id));
  }
  for (const BufferId id : {BufferId::kScratch, BufferId::kOutput}) {
    if (buffer(id) != nullptr) submit_.outputs.push_back(buffer(id));
  }
}

void Executable::run(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Buffer* input = buffer(BufferId::kInput);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    to_device(inputs_[i], inputs[i], input->bytes().data());
  }
  if (input != nullptr) device_->sync_for_device(*input);
  g_submits.fetch_add(1, std::memory_order_relaxed);
  device_->submit(submit_);
  Buffer* output = buffer(BufferId::kOutput);
  device_->sync_for_cpu(*output);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    from_device(outputs_[i], output->bytes().data(), outputs[i]);
  }
}

}  // namespace rk3588
