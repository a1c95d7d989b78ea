// Reads the graph of a runtime's context. Only from within a delegate's prepare.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "span.h"
#include "tflite/tflite_abi.h"

namespace rk3588 {

struct Operation {
  tflite::Node* node = nullptr;
  tflite::Registration* registration = nullptr;
};

// Throws std::runtime_error if the runtime does not tell.
inline Operation operation_at(tflite::Context* context, int32_t index) {
  Operation found;
  if (context->get_node_and_registration(context, index, &found.node, &found.registration) !=
          tflite::Status::kOk ||
      found.node == nullptr || found.registration == nullptr) {
    throw std::runtime_error("the runtime does not describe node " + std::to_string(index));
  }
  return found;
}

// The nodes in their order: a copy, for the runtime reuses the array in later calls. Throws
// std::runtime_error.
inline std::vector<int32_t> execution_plan(tflite::Context* context) {
  tflite::IntArray* plan = nullptr;
  if (context->get_execution_plan(context, &plan) != tflite::Status::kOk || plan == nullptr) {
    throw std::runtime_error("the runtime does not give its execution plan");
  }
  return {plan->begin(), plan->end()};
}

// The tensors of a list that are there: its place may be empty, and so may be places in it.
inline std::vector<size_t> present_tensors(const tflite::Context& context,
                                           const tflite::IntArray* tensors) {
  std::vector<size_t> result;
  if (tensors == nullptr) return result;
  for (const int32_t tensor : *tensors) {
    if (tensor < 0 || static_cast<size_t>(tensor) >= context.tensors_size) continue;
    result.push_back(static_cast<size_t>(tensor));
  }
  return result;
}

// The constants that a node reads.
inline std::vector<Span<const uint8_t>> constants_of(tflite::Context* context, int32_t node) {
  std::vector<Span<const uint8_t>> result;
  for (const size_t input : present_tensors(*context, operation_at(context, node).node->inputs)) {
    const tflite::Tensor& tensor = context->tensors[input];
    if (!tensor.is_constant() || tensor.data == nullptr) continue;
    result.emplace_back(static_cast<const uint8_t*>(tensor.data), tensor.bytes);
  }
  return result;
}

// Why the nodes of the plan cannot run one after the other, empty if they can: a tensor is read
// before it is written, or written twice. The runtime partitions by which results are ready, and
// writes out of bounds where an output of the graph never gets ready, so it must not be asked to
// preview or replace nodes of such a plan. Throws std::runtime_error if the runtime does not
// answer.
std::string plan_disorder(tflite::Context* context);

}  // namespace rk3588
