#include "tflite/delegate_kernel.h"

#include <algorithm>
#include <exception>

#include "tflite/buffer_handles.h"

namespace rk3588 {
namespace {

using tflite::Context;
using tflite::IntArray;
using tflite::Status;
using Access = SharedMemory::Access;

constexpr char kKernelName[] = "Rk3588Delegate";

thread_local PendingScope* t_pending = nullptr;

std::string tensor_text(const Binding& binding) {
  return "tensor " + std::to_string(binding.tensor) + " (" + binding.name + ")";
}

bool contains(const std::vector<Binding>& bindings, int32_t tensor) {
  return std::any_of(bindings.begin(), bindings.end(),
                     [tensor](const Binding& binding) { return binding.tensor == tensor; });
}

class DelegateKernel {
 public:
  DelegateKernel(Context* context, const tflite::DelegateParams& params, PendingKernel pending)
      : inputs_(non_constant(context, *params.input_tensors, pending.folded)),
        outputs_(params.output_tensors->begin(), params.output_tensors->end()),
        replaced_(context, *params.nodes_to_replace),
        recompile_(std::move(pending.recompile)),
        constants_(std::move(pending.constants)),
        runs_(std::move(pending.clock), pending.is_first),
        cpu_tensors_(std::move(pending.cpu_tensors)) {
    if (pending.executable != nullptr) adopt(std::move(pending.executable));
  }

  // Follows the shapes of the inputs: compiles again if they are not the compiled ones, and leaves
  // the nodes to the CPU where that fails. Throws. Compiling takes the GIL, so it must not happen
  // under the kernel's lock.
  void prepare(Context* context, tflite::Node& node) {
    leave_cpu(context, node);
    if (!fits(context)) {
      Recompiled found = compile_again("the shapes differ from the compiled ones", context);
      if (found.executable == nullptr) {
        temporaries_ = replaced_.prepare(context, found.shapes, outputs_);
        set_temporaries(node, temporaries_);
        is_on_cpu_ = true;
        return;
      }
      const std::lock_guard<std::mutex> lock(mutex_);
      adopt(std::move(found.executable));
    }
    if (!fits(context)) throw std::runtime_error("the new program is not for the new shapes");
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Binding& binding : executable_->outputs()) {
      set_shape(context, binding.tensor, binding.shape);
    }
  }

  // Throws. Reads the tensors' addresses each time: the runtime moves them.
  void invoke(Context* context) {
    runs_.count([&] {
      refuse_buffers(context);
      if (is_on_cpu_) return run_on_cpu(context);
      follow_constants(context);
      run(context);
    });
  }

 private:
  // Nodes on the CPU read and write tensors' own memory alone.
  void refuse_buffers(Context* context) {
    for (const int32_t index : cpu_tensors_) {
      const tflite::Tensor* tensor = find_tensor(context, index);
      if (tensor == nullptr || !has_buffer(*tensor)) continue;
      throw std::runtime_error("tensor " + std::to_string(index) +
                               " has a buffer of this delegate, and a node on the CPU uses it; "
                               "take the buffer away (SetBufferHandle with -1)");
    }
  }

  static void copy_buffers(Context* context, const std::vector<int32_t>& tensors, Access access) {
    for (const int32_t index : tensors) {
      tflite::Tensor* tensor = find_tensor(context, index);
      if (tensor == nullptr) continue;
      if (has_buffer(*tensor)) copy_buffer(*tensor, access);
      if (access == Access::kWrite) tensor->data_is_stale = false;
    }
  }

  void run_on_cpu(Context* context) {
    const int64_t start = monotonic_ns();
    copy_buffers(context, inputs_, Access::kRead);
    replaced_.invoke(context);
    copy_buffers(context, outputs_, Access::kWrite);
    if (runs_.counters == nullptr) return;
    runs_.counters->add(Count::kCpuRuns, 1);
    runs_.counters->add(Count::kCpu, static_cast<uint64_t>(monotonic_ns() - start));
  }

  void run(Context* context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    EdgeMemory edges;
    for (size_t i = 0; i < input_data_.size(); ++i) {
      input_data_[i] = data(context, executable_->inputs()[i], &edges, Access::kRead);
    }
    for (size_t i = 0; i < output_data_.size(); ++i) {
      output_data_[i] = unread_[i].empty()
                            ? data(context, executable_->outputs()[i], &edges, Access::kWrite)
                            : unread_[i].data();
    }
    runs_.counters->add_run(edges.run(executable_.get(), input_data_, output_data_));
  }

  // Throws.
  Recompiled compile_again(const char* why, Context* context) {
    if (!recompile_) throw std::runtime_error(why);
    return recompile_(context);
  }

  // Compiles again if the host has overwritten a constant. Throws: while it runs, the runtime plans
  // no memory for nodes on the CPU.
  void follow_constants(Context* context) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!constants_.changed() && executable_ != nullptr) return;
      executable_.reset();
    }
    Recompiled found = compile_again("constants differ from the compiled ones", context);
    if (found.executable == nullptr) {
      throw std::runtime_error(
          "the partition does not compile with the constants it has now; set them back, or load "
          "the model without the delegate");
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    adopt(std::move(found.executable));
  }

  // The planner moves what it gave memory to; nobody may find the old places.
  void leave_cpu(Context* context, tflite::Node& node) {
    if (!is_on_cpu_) return;
    is_on_cpu_ = false;
    for (const int32_t index : temporaries_) {
      tflite::Tensor* tensor = find_tensor(context, index);
      if (tensor != nullptr && tensor->allocation_type == tflite::kArenaRw) tensor->data = nullptr;
    }
    temporaries_.clear();
    set_temporaries(node, temporaries_);
  }

  static std::vector<int32_t> non_constant(Context* context, const IntArray& tensors,
                                           const std::vector<int32_t>& folded) {
    std::vector<int32_t> result;
    for (const int32_t index : tensors) {
      if (std::find(folded.begin(), folded.end(), index) != folded.end()) continue;
      const tflite::Tensor* tensor = find_tensor(context, index);
      if (tensor != nullptr && !tensor->is_constant()) result.push_back(index);
    }
    return result;
  }

  // Every tensor that the runtime expects to be written, and every one it hands over, must be
  // bound.
  void adopt(std::unique_ptr<Executable> executable) {
    for (const int32_t tensor : inputs_) {
      if (!contains(executable->inputs(), tensor)) {
        throw ProgramError("the program does not read tensor " + std::to_string(tensor));
      }
    }
    for (const int32_t tensor : outputs_) {
      if (!contains(executable->outputs(), tensor)) {
        throw ProgramError("the program does not write tensor " + std::to_string(tensor));
      }
    }
    executable_ = std::move(executable);
    runs_.counters = executable_->counters();
    input_data_.resize(executable_->inputs().size());
    output_data_.resize(executable_->outputs().size());
    unread_.assign(executable_->outputs().size(), {});
    for (size_t i = 0; i < unread_.size(); ++i) {
      const Binding& binding = executable_->outputs()[i];
      const bool is_read = std::find(outputs_.begin(), outputs_.end(),
                                     static_cast<int32_t>(binding.tensor)) != outputs_.end();
      if (!is_read) unread_[i].resize(binding.host_bytes());
    }
  }

  // Whether the inputs have the compiled shapes.
  bool fits(Context* context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (executable_ == nullptr) return false;
    const std::vector<Binding>& inputs = executable_->inputs();
    return std::all_of(inputs.begin(), inputs.end(), [context](const Binding& binding) {
      const tflite::Tensor* tensor = find_tensor(context, binding.tensor);
      return tensor != nullptr && has_shape(*tensor, binding.shape);
    });
  }

  // Where the host has the values of an input or output.
  static uint8_t* data(Context* context, const Binding& binding, EdgeMemory* edges, Access access) {
    tflite::Tensor* tensor = find_tensor(context, binding.tensor);
    if (tensor == nullptr || (tensor->data == nullptr && !has_buffer(*tensor))) {
      throw std::runtime_error(tensor_text(binding) + " has no memory");
    }
    const int32_t type = tflite::type_of(binding.element);
    if (tensor->type != type || tensor->bytes != binding.host_bytes()) {
      throw std::runtime_error(tensor_text(binding) + " is not the " +
                               std::string(facts(binding.element).name) + " " +
                               shape_text(binding.shape) + " it was compiled for");
    }
    if (tensor->buffer_handle == tflite::kNoBufferHandle || tensor->delegate == nullptr) {
      if (access == Access::kWrite) tensor->data_is_stale = false;  // it had a buffer once
      return static_cast<uint8_t*>(tensor->data);
    }
    return edges->add(context, tensor, access);
  }

  std::mutex mutex_;
  std::vector<int32_t> inputs_;
  std::vector<int32_t> outputs_;
  ReplacedNodes replaced_;
  Recompile recompile_;
  WatchedConstants constants_;
  std::unique_ptr<Executable> executable_;
  std::vector<const uint8_t*> input_data_;
  std::vector<uint8_t*> output_data_;
  // Room for results that nobody reads: the runtime gives those of a compiled model no memory.
  std::vector<std::vector<uint8_t>> unread_;
  bool is_on_cpu_ = false;
  std::vector<int32_t> temporaries_;  // of the nodes, while they are on the CPU
  KernelRuns runs_;
  std::vector<int32_t> cpu_tensors_;  // of the graph, in its first kernel
};

void* kernel_init(Context* context, const char* buffer, size_t) {
  if (t_pending == nullptr) return nullptr;
  try {
    const auto& params = *reinterpret_cast<const tflite::DelegateParams*>(buffer);
    std::unique_ptr<PendingKernel> pending = t_pending->take(*params.nodes_to_replace);
    if (pending == nullptr) {
      t_pending->set_error("the runtime made a partition that it had not previewed");
      return nullptr;
    }
    return std::make_unique<DelegateKernel>(context, params, std::move(*pending)).release();
  } catch (const std::exception& error) {
    t_pending->set_error(error.what());
    return nullptr;
  }
}

void kernel_free(Context*, void* buffer) {
  std::unique_ptr<DelegateKernel>(static_cast<DelegateKernel*>(buffer)).reset();
}

DelegateKernel& kernel_of(tflite::Node* node) {
  if (node->user_data == nullptr) throw std::runtime_error("the partition was not initialised");
  return *static_cast<DelegateKernel*>(node->user_data);
}

Status kernel_prepare(Context* context, tflite::Node* node) {
  return guarded(context, [&] { kernel_of(node).prepare(context, *node); });
}

Status kernel_invoke(Context* context, tflite::Node* node) {
  return guarded(context, [&] { kernel_of(node).invoke(context); });
}

}  // namespace

std::string shape_text(const std::vector<int32_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

tflite::Tensor* find_tensor(Context* context, int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= context->tensors_size) return nullptr;
  return &context->tensors[index];
}

bool has_shape(const tflite::Tensor& tensor, const std::vector<int32_t>& shape) {
  return tensor.dims != nullptr && static_cast<size_t>(tensor.dims->size) == shape.size() &&
         std::equal(shape.begin(), shape.end(), tensor.dims->begin());
}

PendingScope::PendingScope(std::vector<PendingKernel>* pending)
    : pending_(pending), outer_(t_pending) {
  t_pending = this;
}

PendingScope::~PendingScope() { t_pending = outer_; }

void PendingScope::set_error(const std::string& text) {
  if (error_.empty()) error_ = text;
}

std::unique_ptr<PendingKernel> PendingScope::take(const IntArray& nodes) {
  std::vector<int32_t> wanted(nodes.begin(), nodes.end());
  std::sort(wanted.begin(), wanted.end());
  for (PendingKernel& candidate : *pending_) {
    if (candidate.nodes.empty() || candidate.nodes != wanted) continue;
    auto taken = std::make_unique<PendingKernel>(std::move(candidate));
    candidate.nodes.clear();
    return taken;
  }
  return nullptr;
}

tflite::Registration kernel_registration() {
  tflite::Registration registration{};
  registration.init = kernel_init;
  registration.free = kernel_free;
  registration.prepare = kernel_prepare;
  registration.invoke = kernel_invoke;
  registration.builtin_code = tflite::kDelegateOp;
  registration.custom_name = kKernelName;
  registration.version = 1;
  return registration;
}

void report_error(Context* context, const std::string& text) {
  constexpr size_t kPieceBytes = 1000;
  for (size_t begin = 0; begin < text.size(); begin += kPieceBytes) {
    context->report_error(context, "%s", text.substr(begin, kPieceBytes).c_str());
  }
}

}  // namespace rk3588
