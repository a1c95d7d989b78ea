#include "tflite/buffer_handles.h"

#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "host/device.h"
#include "tflite/delegate_kernel.h"

namespace rk3588 {
namespace {

using tflite::Context;
using tflite::Delegate;
using tflite::Status;
using tflite::Tensor;
using Access = SharedMemory::Access;

// Memories by handle, until their descriptors are closed: runtimes free a handle whenever a tensor
// gets another one, and the buffers of a camera come again. Thread-safe.
class BufferHandles {
 public:
  std::shared_ptr<SharedMemory> find(int32_t handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    forget_closed();
    const auto found = known_.find(handle);
    if (found != known_.end()) return found->second;
    return known_.emplace(handle, std::make_shared<SharedMemory>(handle)).first->second;
  }
  void sweep() {
    const std::lock_guard<std::mutex> lock(mutex_);
    forget_closed();
  }
  // Never destroyed: runtimes free handles while the process ends.
  static BufferHandles& of_process() {
    static BufferHandles* const handles = std::make_unique<BufferHandles>().release();
    return *handles;
  }

 private:
  void forget_closed() {
    for (auto place = known_.begin(); place != known_.end();) {
      if (place->second->is_behind(place->first)) {
        ++place;
        continue;
      }
      place->second->release();
      place = known_.erase(place);
    }
  }

  std::mutex mutex_;
  std::map<int32_t, std::shared_ptr<SharedMemory>> known_;
};

std::shared_ptr<SharedMemory> find_room(int32_t handle, size_t bytes, Access access) {
  std::shared_ptr<SharedMemory> memory = BufferHandles::of_process().find(handle);
  const std::string name = "buffer handle " + std::to_string(handle);
  if (memory->bytes().size() < bytes) {
    throw DeviceError(name + " has " + std::to_string(memory->bytes().size()) +
                      " bytes, its tensor " + std::to_string(bytes));
  }
  if (access == Access::kWrite && !memory->is_writable()) {
    throw DeviceError(name + " was opened to read alone; open it to write, too");
  }
  return memory;
}

void copy(const Tensor& tensor, int32_t handle, Access access) {
  if (tensor.data == nullptr) throw std::runtime_error("the tensor has no memory to copy");
  const std::shared_ptr<SharedMemory> memory = find_room(handle, tensor.bytes, access);
  memory->begin(access);
  if (access == Access::kRead) {
    std::memcpy(tensor.data, memory->bytes().data(), tensor.bytes);
  } else {
    std::memcpy(memory->bytes().data(), tensor.data, tensor.bytes);
  }
  memory->end(access);
}

// The delegate may be one that hands calls over to ours, as TensorFlow Lite's own wrapper of
// external delegates does: nothing of it is looked at.
Status copy_from_buffer(Context* context, Delegate*, int32_t handle, Tensor* tensor) {
  return guarded(context, [&] { copy(*tensor, handle, Access::kRead); });
}

Status copy_to_buffer(Context* context, Delegate*, int32_t handle, Tensor* tensor) {
  return guarded(context, [&] { copy(*tensor, handle, Access::kWrite); });
}

void free_buffer(Context*, Delegate*, int32_t* handle) {
  BufferHandles::of_process().sweep();
  *handle = tflite::kNoBufferHandle;
}

}  // namespace

void take_buffer_handles(Delegate* delegate) {
  delegate->copy_from_buffer_handle = copy_from_buffer;
  delegate->copy_to_buffer_handle = copy_to_buffer;
  delegate->free_buffer_handle = free_buffer;
}

bool has_buffer(const Tensor& tensor) {
  return tensor.buffer_handle != tflite::kNoBufferHandle && tensor.delegate != nullptr &&
         tensor.delegate->copy_from_buffer_handle == copy_from_buffer;
}

std::shared_ptr<SharedMemory> find_buffer(const Tensor& tensor, size_t bytes, Access access) {
  return find_room(tensor.buffer_handle, bytes, access);
}

void copy_buffer(const Tensor& tensor, Access access) {
  copy(tensor, tensor.buffer_handle, access);
}

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
