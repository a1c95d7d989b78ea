#include "tflite/compiled_operator.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "program/executable.h"
#include "program/program.h"
#include "tflite/delegate_kernel.h"
#include "tflite/delegate_object.h"
#include "tflite/file_pages.h"
#include "tflite/graph_access.h"

namespace rk3588 {
namespace {

using tflite::Context;
using tflite::Delegate;
using tflite::IntArray;
using tflite::Node;
using tflite::Registration;
using tflite::Status;
using tflite::Tensor;

[[noreturn]] void fail(int32_t node, const std::string& text) {
  throw ProgramError("node " + std::to_string(node) + " (" + kCompiledOperatorName + "): " + text);
}

bool is_compiled(const Registration& registration) {
  return registration.builtin_code == tflite::kCustomOp && registration.custom_name != nullptr &&
         std::strcmp(registration.custom_name, kCompiledOperatorName) == 0;
}

// The operator's tensors must be those of the program, in its order and of its element types.
void check_tensors(Context* context, int32_t node, const char* role, const IntArray* tensors,
                   const std::vector<Binding>& bindings) {
  const size_t count = tensors == nullptr ? 0 : static_cast<size_t>(tensors->size);
  if (count != bindings.size()) {
    fail(node, "has " + std::to_string(count) + " " + role + "s, its program " +
                   std::to_string(bindings.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    const int32_t index = tensors->begin()[i];
    const Tensor* tensor = find_tensor(context, index);
    const std::string which = std::string(role) + " " + std::to_string(i);
    if (index != bindings[i].tensor || tensor == nullptr) {
      fail(node, which + " is tensor " + std::to_string(index) + ", its program was made for " +
                     std::to_string(bindings[i].tensor));
    }
    const int32_t type = tflite::type_of(bindings[i].element);
    if (tensor->type != type || tensor->is_constant()) {
      fail(node, which + " is not of the kind its program was made for");
    }
  }
}

// The file has the shapes of all tensors that a compiled operator writes.
Status keep_shapes(Context*, Node*) { return Status::kOk; }

// The operator's custom options, in the model's memory.
Span<const uint8_t> content(const Node& node) {
  if (node.custom_initial_data == nullptr || node.custom_initial_data_size <= 0) return {};
  return {static_cast<const uint8_t*>(node.custom_initial_data),
          static_cast<size_t>(node.custom_initial_data_size)};
}

Program read_verified(Context* context, int32_t index, const Node& node) {
  if (content(node).empty()) fail(index, "holds no program");
  Program program;
  try {
    program = read_program(content(node));
  } catch (const ProgramError& error) {
    fail(index, error.what());
  }
  check_tensors(context, index, "input", node.inputs, program.inputs);
  check_tensors(context, index, "output", node.outputs, program.outputs);
  release_file_pages(content(node));
  return program;
}

void check_shapes(Context* context, int32_t node, const std::vector<Binding>& bindings) {
  for (const Binding& binding : bindings) {
    const Tensor* tensor = find_tensor(context, binding.tensor);
    if (tensor != nullptr && has_shape(*tensor, binding.shape)) continue;
    fail(node, "was compiled for tensor " + std::to_string(binding.tensor) + " (" + binding.name +
                   ") of shape " + shape_text(binding.shape) +
                   "; use the original model for other shapes");
  }
}

// Uploads when tensors are allocated, if the shapes are the compiled ones. The device has its own
// copy then: the model's is not kept in memory.
Recompile upload_function(int32_t node, Program program, Span<const uint8_t> bytes,
                          const RunSettings& settings) {
  auto shared = std::make_shared<const Program>(std::move(program));
  return [node, shared, bytes, settings](Context* context) {
    check_shapes(context, node, shared->inputs);
    check_shapes(context, node, shared->outputs);
    Recompiled result;
    RunSettings spending = settings;
    spending.spend = &release_file_pages;
    result.executable = std::make_unique<Executable>(*shared, spending);
    release_file_pages(bytes);
    return result;
  };
}

}  // namespace

Claim install_compiled_operators(Context* context, Delegate* delegate,
                                 const RunSettings& settings) {
  const std::vector<int32_t> order = execution_plan(context);
  Claim claim;
  claim.total = order.size();
  std::vector<PendingKernel> kernels;
  for (const int32_t index : order) {
    const auto [node, registration] = operation_at(context, index);
    if (!is_compiled(*registration)) continue;
    PendingKernel kernel;
    kernel.nodes = {index};
    kernel.recompile =
        upload_function(index, read_verified(context, index, *node), content(*node), settings);
    // Where another delegate asks for it (kRequirePropagatedShapes), the runtime prepares the
    // original plan too, and refuses custom operators that it cannot prepare. The registration is
    // this node's own copy.
    registration->prepare = keep_shapes;
    kernels.push_back(std::move(kernel));
  }
  claim.claimed = kernels.size();
  introduce_kernels(context, &kernels);
  install_kernels(context, delegate, std::move(kernels));
  return claim;
}

}  // namespace rk3588
