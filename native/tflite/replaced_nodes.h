// The nodes that a partition stands for, run by the runtime's own kernels.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "tflite/graph_access.h"
#include "tflite/tflite_abi.h"

namespace rk3588 {

// Shapes by tensor.
using Shapes = std::map<int32_t, std::vector<int32_t>>;

struct CFree {
  void operator()(void* memory) const { std::free(memory); }
};
// An array that the runtime may come to own: C memory.
using CArray = std::unique_ptr<tflite::IntArray, CFree>;
// Throws std::bad_alloc.
CArray c_array(const std::vector<int32_t>& values);

// Gives what the runtime would give without a delegate, where a partition does not compile for the
// shapes it meets. The runtime keeps the nodes that a delegate replaces, with their kernels, since
// delegates can be removed again.
class ReplacedNodes {
 public:
  // `nodes` in an order in which they can run. Only from within the init of the kernel in their
  // place.
  ReplacedNodes(tflite::Context* context, const tflite::IntArray& nodes);

  // Prepares the nodes for the shapes that the partition's inputs have now. `known`: for results
  // whose kernels tell their shapes only while they run. Returns the tensors that need memory while
  // the nodes run: their temporaries, and what they write for each other. Only from within the
  // prepare of the kernel in their place. Throws std::runtime_error.
  std::vector<int32_t> prepare(tflite::Context* context, const Shapes& known,
                               const std::vector<int32_t>& outputs);

  // Throws std::runtime_error.
  void invoke(tflite::Context* context);

 private:
  Operation at(tflite::Context* context, int32_t index) const;

  // Kernels' contexts refuse the call: a kernel should not need to know of nodes. The function that
  // the delegate's context has works at any time.
  decltype(tflite::Context::get_node_and_registration) get_node_and_registration_;
  std::vector<int32_t> nodes_;
  std::vector<CArray> temporaries_;  // of each node
};

// Gives a tensor that is not a constant a shape, and memory if it is dynamic. Throws
// std::runtime_error.
void set_shape(tflite::Context* context, int32_t tensor, const std::vector<int32_t>& shape);

// The tensors that the runtime's planner gives memory while `node` runs. Throws std::bad_alloc.
void set_temporaries(tflite::Node& node, const std::vector<int32_t>& tensors);

}  // namespace rk3588
