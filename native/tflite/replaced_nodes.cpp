#include "tflite/replaced_nodes.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "tflite/delegate_kernel.h"

namespace rk3588 {
namespace {

using tflite::Context;
using tflite::IntArray;
using tflite::Node;
using tflite::Registration;
using tflite::Status;
using tflite::Tensor;

// A kernel may hold pointers to tensors while it adds some, so the runtime leaves room for so many
// before each kernel's prepare (kTensorsCapacityHeadroom of its subgraph.h).
constexpr size_t kHeadroom = 16;

// Makes the runtime's array of tensors move now, when nobody holds pointers into it, and grow:
// arrays grow by half their size at least. The tensors added are never used. How many more fit.
size_t make_room(Context* context) {
  for (size_t room = 0; room < kHeadroom;) {
    const Tensor* before = context->tensors;
    const size_t size = context->tensors_size;
    int32_t first = 0;
    if (context->add_tensors(context, 1, &first) != Status::kOk) {
      throw std::runtime_error("the runtime adds no tensors");
    }
    if (context->tensors == before) continue;
    room = size / 2 - std::min<size_t>(size / 2, 1);
    if (room >= kHeadroom) return room;
  }
  return kHeadroom;
}

void add_present(std::vector<int32_t>& to, const IntArray* tensors) {
  if (tensors == nullptr) return;
  for (const int32_t tensor : *tensors) {
    if (tensor >= 0 && std::find(to.begin(), to.end(), tensor) == to.end()) to.push_back(tensor);
  }
}

std::string failure(int32_t node, const char* what) {
  return "node " + std::to_string(node) + ", left to the CPU, fails to " + what;
}

// A node has its temporaries while its kernel works, and none in between: when the runtime has
// allocated the tensors, it frees those of nodes that are not in its plan.
class HeldTemporaries {
 public:
  HeldTemporaries(Node& node, CArray& temporaries)
      : node_(node), temporaries_(temporaries), none_(c_array({})) {
    if (temporaries_ != nullptr) exchange(temporaries_);
  }
  ~HeldTemporaries() {
    exchange(none_);
    temporaries_ = std::move(none_);
  }
  HeldTemporaries(const HeldTemporaries&) = delete;
  HeldTemporaries& operator=(const HeldTemporaries&) = delete;

 private:
  void exchange(CArray& other) {
    IntArray* const mine = other.release();
    other.reset(node_.temporaries);
    node_.temporaries = mine;
  }

  Node& node_;
  CArray& temporaries_;
  CArray none_;
};

// Results of shapes that the kernel tells only while it runs.
void shape_results(Context* context, int32_t index, const Node& node, const Shapes& known) {
  for (const int32_t output : *node.outputs) {
    const Tensor* tensor = find_tensor(context, output);
    if (tensor == nullptr || tensor->allocation_type != tflite::kDynamic) continue;
    const auto found = known.find(output);
    if (found == known.end()) throw std::runtime_error(failure(index, "tell its shapes"));
    set_shape(context, output, found->second);
  }
}

}  // namespace

ReplacedNodes::ReplacedNodes(Context* context, const IntArray& nodes)
    : get_node_and_registration_(context->get_node_and_registration),
      nodes_(nodes.begin(), nodes.end()),
      temporaries_(nodes_.size()) {}

Operation ReplacedNodes::at(Context* context, int32_t index) const {
  Operation found;
  if (get_node_and_registration_(context, index, &found.node, &found.registration) != Status::kOk ||
      found.node == nullptr || found.registration == nullptr ||
      found.registration->invoke == nullptr || found.node->outputs == nullptr) {
    throw std::runtime_error(failure(index, "be found"));
  }
  return found;
}

std::vector<int32_t> ReplacedNodes::prepare(Context* context, const Shapes& known,
                                            const std::vector<int32_t>& outputs) {
  std::vector<int32_t> tensors;
  size_t room = kHeadroom;  // the runtime made it before this kernel's prepare
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (room < kHeadroom) room = make_room(context);
    const Operation operation = at(context, nodes_[i]);
    const size_t before = context->tensors_size;
    const HeldTemporaries held(*operation.node, temporaries_[i]);
    if (operation.registration->prepare != nullptr &&
        operation.registration->prepare(context, operation.node) != Status::kOk) {
      throw std::runtime_error(failure(nodes_[i], "prepare"));
    }
    room -= std::min(room, context->tensors_size - before);
    shape_results(context, nodes_[i], *operation.node, known);
    add_present(tensors, operation.node->temporaries);
    add_present(tensors, operation.node->outputs);
  }
  const auto is_planned = [&outputs](int32_t tensor) {
    return std::find(outputs.begin(), outputs.end(), tensor) != outputs.end();
  };
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(), is_planned), tensors.end());
  return tensors;
}

void ReplacedNodes::invoke(Context* context) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Operation operation = at(context, nodes_[i]);
    const HeldTemporaries held(*operation.node, temporaries_[i]);
    if (operation.registration->invoke(context, operation.node) != Status::kOk) {
      throw std::runtime_error(failure(nodes_[i], "run"));
    }
  }
}

CArray c_array(const std::vector<int32_t>& values) {
  CArray array(static_cast<IntArray*>(std::malloc((values.size() + 1) * sizeof(int32_t))));
  if (array == nullptr) throw std::bad_alloc();
  array->size = static_cast<int32_t>(values.size());
  std::copy(values.begin(), values.end(), &array->size + 1);
  return array;
}

void set_shape(Context* context, int32_t index, const std::vector<int32_t>& shape) {
  Tensor* tensor = find_tensor(context, index);
  if (tensor == nullptr || tensor->is_constant()) {
    throw std::runtime_error("tensor " + std::to_string(index) + " takes no shape");
  }
  const bool is_dynamic = tensor->allocation_type == tflite::kDynamic;
  if (has_shape(*tensor, shape) && !(is_dynamic && tensor->data == nullptr)) return;
  // The runtime takes the array over.
  if (context->resize_tensor(context, tensor, c_array(shape).release()) != Status::kOk) {
    throw std::runtime_error("tensor " + std::to_string(index) + " gets no memory");
  }
}

void set_temporaries(Node& node, const std::vector<int32_t>& tensors) {
  const bool is_empty = node.temporaries == nullptr || node.temporaries->size == 0;
  if (is_empty && tensors.empty()) return;
  CArray array = c_array(tensors);
  std::free(node.temporaries);
  node.temporaries = array.release();
}

}  // namespace rk3588
