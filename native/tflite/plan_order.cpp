#include "tflite/plan_order.h"

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace rk3588 {
namespace {

using tflite::Context;
using tflite::IntArray;
using tflite::Node;
using tflite::Registration;
using tflite::Status;

enum class Writing : uint8_t { kNever, kLater, kDone };

const Node& node_at(Context* context, int32_t index) {
  Node* node = nullptr;
  Registration* registration = nullptr;
  if (context->get_node_and_registration(context, index, &node, &registration) != Status::kOk ||
      node == nullptr) {
    throw std::runtime_error("the runtime does not describe node " + std::to_string(index));
  }
  return *node;
}

// The tensors of a list that are there; indices outside the graph are left out.
std::vector<size_t> present(const Context& context, const IntArray* tensors) {
  std::vector<size_t> result;
  if (tensors == nullptr) return result;
  for (const int32_t tensor : *tensors) {
    if (tensor < 0 || static_cast<size_t>(tensor) >= context.tensors_size) continue;
    result.push_back(static_cast<size_t>(tensor));
  }
  return result;
}

std::string problem(int32_t node, const char* what, size_t tensor) {
  return "node " + std::to_string(node) + " " + what + " tensor " + std::to_string(tensor);
}

}  // namespace

std::string plan_disorder(Context* context) {
  IntArray* plan = nullptr;
  if (context->get_execution_plan(context, &plan) != Status::kOk || plan == nullptr) {
    throw std::runtime_error("the runtime does not give its execution plan");
  }
  // The runtime reuses the array in later calls.
  const std::vector<int32_t> order(plan->begin(), plan->end());
  std::vector<Writing> state(context->tensors_size, Writing::kNever);
  for (const int32_t index : order) {
    for (const size_t tensor : present(*context, node_at(context, index).outputs)) {
      if (state[tensor] == Writing::kLater) return problem(index, "writes again", tensor);
      state[tensor] = Writing::kLater;
    }
  }
  for (const int32_t index : order) {
    const Node& node = node_at(context, index);
    for (const size_t tensor : present(*context, node.inputs)) {
      if (state[tensor] == Writing::kLater) return problem(index, "reads too early", tensor);
    }
    for (const size_t tensor : present(*context, node.outputs)) state[tensor] = Writing::kDone;
  }
  return {};
}

}  // namespace rk3588
