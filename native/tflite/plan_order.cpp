#include "tflite/plan_order.h"

#include <cstdint>
#include <vector>

#include "tflite/graph_access.h"

namespace rk3588 {
namespace {

enum class Writing : uint8_t { kNever, kLater, kDone };

std::string problem(int32_t node, const char* what, size_t tensor) {
  return "node " + std::to_string(node) + " " + what + " tensor " + std::to_string(tensor);
}

}  // namespace

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
