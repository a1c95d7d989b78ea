// What the kernels of one graph have to know of each other and of the nodes beside them.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

#include "tflite/delegate_kernel.h"
#include "tflite/graph_access.h"

namespace rk3588 {
namespace {

using tflite::Context;

// Tensors that nodes outside of all kernels write, or read where no kernel writes them.
std::vector<int32_t> cpu_tensors(Context* context, const std::vector<PendingKernel>& kernels) {
  std::set<int32_t> taken;
  for (const PendingKernel& kernel : kernels) {
    taken.insert(kernel.nodes.begin(), kernel.nodes.end());
  }
  std::set<int32_t> found;
  std::set<int32_t> written;
  for (const int32_t index : execution_plan(context)) {
    const tflite::Node& node = *operation_at(context, index).node;
    const bool is_taken = taken.count(index) != 0;
    for (const size_t tensor : present_tensors(*context, node.outputs)) {
      (is_taken ? written : found).insert(static_cast<int32_t>(tensor));
    }
    if (is_taken) continue;
    for (const size_t tensor : present_tensors(*context, node.inputs)) {
      if (context->tensors[tensor].is_constant()) continue;
      found.insert(static_cast<int32_t>(tensor));
    }
  }
  std::vector<int32_t> result;
  std::set_difference(found.begin(), found.end(), written.begin(), written.end(),
                      std::back_inserter(result));
  return result;
}

enum class Writing : uint8_t { kNever, kLater, kDone };

std::string problem(int32_t node, const char* what, size_t tensor) {
  return "node " + std::to_string(node) + " " + what + " tensor " + std::to_string(tensor);
}

}  // namespace

void introduce_kernels(Context* context, std::vector<PendingKernel>* kernels) {
  const auto clock = std::make_shared<GraphClock>();
  for (PendingKernel& kernel : *kernels) kernel.clock = clock;
  const auto first = std::min_element(
      kernels->begin(), kernels->end(),
      [](const PendingKernel& a, const PendingKernel& b) { return a.nodes < b.nodes; });
  if (first == kernels->end()) return;
  first->is_first = true;
  first->cpu_tensors = cpu_tensors(context, *kernels);
}

std::string plan_disorder(tflite::Context* context) {
  const std::vector<int32_t> order = execution_plan(context);
  std::vector<Writing> state(context->tensors_size, Writing::kNever);
  for (const int32_t index : order) {
    for (const size_t tensor :
         present_tensors(*context, operation_at(context, index).node->outputs)) {
      if (state[tensor] == Writing::kLater) return problem(index, "writes again", tensor);
      state[tensor] = Writing::kLater;
    }
  }
  for (const int32_t index : order) {
    const tflite::Node& node = *operation_at(context, index).node;
    for (const size_t tensor : present_tensors(*context, node.inputs)) {
      if (state[tensor] == Writing::kLater) return problem(index, "reads too early", tensor);
    }
    for (const size_t tensor : present_tensors(*context, node.outputs))
      state[tensor] = Writing::kDone;
  }
  return {};
}

}  // namespace rk3588
