#include "tflite/edge_memory.h"

#include <stdexcept>

#include "tflite/buffer_handles.h"

namespace rk3588 {

using Access = SharedMemory::Access;

uint8_t* EdgeMemory::add(tflite::Context* context, tflite::Tensor* tensor,
                         SharedMemory::Access access) {
  if (has_buffer(*tensor)) {
    std::shared_ptr<SharedMemory> memory = find_buffer(*tensor, tensor->bytes, access);
    uint8_t* data = memory->bytes().data();
    noted_.push_back({tensor, std::move(memory), access});
    return data;
  }
  // Another delegate's, which alone knows what its handle means.
  tflite::Delegate* owner = tensor->delegate;
  const bool is_readable = access == Access::kRead && owner->copy_from_buffer_handle != nullptr &&
                           owner->copy_from_buffer_handle(context, owner, tensor->buffer_handle,
                                                          tensor) == tflite::Status::kOk;
  if (!is_readable) throw std::runtime_error("a tensor has a buffer that its delegate cannot copy");
  return static_cast<uint8_t*>(tensor->data);
}

RunTimes EdgeMemory::run(Executable* executable, Span<const uint8_t* const> inputs,
                         Span<uint8_t* const> outputs) {
  if (noted_.empty()) return executable->run(inputs, outputs);
  SharedEdges edges;
  for (const Noted& noted : noted_) {
    (noted.access == Access::kRead ? edges.input : edges.output) = noted.memory;
  }
  edges = executable->in_place(edges);
  synchronise(true, edges);
  const bool is_placed = edges.input != nullptr || edges.output != nullptr;
  const RunTimes times = is_placed ? executable->run_in_place(inputs, outputs, edges)
                                   : executable->run(inputs, outputs);
  synchronise(false, edges);
  for (const Noted& noted : noted_) {
    if (noted.access == Access::kWrite) noted.tensor->data_is_stale = true;
  }
  return times;
}

void EdgeMemory::synchronise(bool begins, const SharedEdges& in_place) const {
  for (const Noted& noted : noted_) {
    const auto& placed = noted.access == Access::kRead ? in_place.input : in_place.output;
    if (placed != nullptr) continue;
    if (begins) {
      noted.memory->begin(noted.access);
    } else {
      noted.memory->end(noted.access);
    }
  }
}

}  // namespace rk3588
