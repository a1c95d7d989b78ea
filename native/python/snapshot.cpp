#include "snapshot.h"

#include <pybind11/numpy.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace py = pybind11;

namespace rk3588 {
namespace {

using tflite::Context;
using tflite::IntArray;
using tflite::Node;
using tflite::Registration;
using tflite::Status;
using tflite::Tensor;

py::str text(const char* bytes) {
  if (bytes == nullptr) return py::str("");
  PyObject* decoded = PyUnicode_DecodeUTF8(
      bytes, static_cast<Py_ssize_t>(std::char_traits<char>::length(bytes)), "backslashreplace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

py::tuple int_tuple(const IntArray* array) {
  if (array == nullptr) return py::tuple(0);
  py::tuple result(static_cast<size_t>(array->size));
  size_t position = 0;
  for (const int32_t value : *array) result[position++] = value;
  return result;
}

py::object quantization(const Tensor& tensor) {
  if (tensor.quantization.type == tflite::kNoQuantization ||
      tensor.quantization.params == nullptr) {
    return py::none();
  }
  py::dict result;
  result["type"] = tensor.quantization.type;
  // Other types (blockwise, multi-axis) have other parameter structs: nothing more may be read.
  if (tensor.quantization.type != tflite::kAffineQuantization) return result;
  const auto& affine = *static_cast<const tflite::AffineQuantization*>(tensor.quantization.params);
  const py::ssize_t scales = affine.scale == nullptr ? 0 : affine.scale->size;
  const py::ssize_t zero_points = affine.zero_point == nullptr ? 0 : affine.zero_point->size;
  // Without a base object py::array copies.
  result["scale"] = py::array_t<float>(scales, scales == 0 ? nullptr : affine.scale->begin());
  result["zero_point"] =
      py::array_t<int32_t>(zero_points, zero_points == 0 ? nullptr : affine.zero_point->begin());
  result["axis"] = affine.quantized_dimension;
  return result;
}

py::object constant_bytes(const Tensor& tensor) {
  if (!tensor.is_constant() || tensor.data == nullptr) return py::none();
  const py::memoryview view =
      py::memoryview::from_memory(tensor.data, static_cast<py::ssize_t>(tensor.bytes));
  return py::module_::import("numpy").attr("frombuffer")(view, py::arg("dtype") = "uint8");
}

py::dict snapshot_tensor(const Tensor& tensor, size_t index) {
  py::dict result;
  result["index"] = index;
  result["name"] = text(tensor.name);
  result["type"] = tensor.type;
  result["shape"] = int_tuple(tensor.dims);
  result["shape_signature"] = int_tuple(tensor.dims_signature);
  result["allocation_type"] = tensor.allocation_type;
  result["is_variable"] = tensor.is_variable;
  result["is_sparse"] = tensor.sparsity != nullptr;
  result["quantization"] = quantization(tensor);
  result["data"] = constant_bytes(tensor);
  return result;
}

template <typename Params>
py::dict conv_options(const Params& params) {
  py::dict result;
  result["padding"] = params.padding;
  result["stride_h"] = params.stride_h;
  result["stride_w"] = params.stride_w;
  result["dilation_h"] = params.dilation_h;
  result["dilation_w"] = params.dilation_w;
  result["activation"] = params.activation;
  return result;
}

py::object builtin_options(int32_t builtin_code, const void* data) {
  if (data == nullptr) return py::none();
  switch (builtin_code) {
    case tflite::kConv2d:
      return conv_options(*static_cast<const tflite::ConvParams*>(data));
    case tflite::kDepthwiseConv2d: {
      const auto& params = *static_cast<const tflite::DepthwiseConvParams*>(data);
      py::dict result = conv_options(params);
      result["depth_multiplier"] = params.depth_multiplier;
      return result;
    }
    case tflite::kFullyConnected: {
      const auto& params = *static_cast<const tflite::FullyConnectedParams*>(data);
      py::dict result;
      result["activation"] = params.activation;
      result["weights_format"] = params.weights_format;
      result["keep_num_dims"] = params.keep_num_dims;
      result["asymmetric_quantize_inputs"] = params.asymmetric_quantize_inputs;
      return result;
    }
    case tflite::kAdd: {
      py::dict result;
      result["activation"] = static_cast<const tflite::AddParams*>(data)->activation;
      return result;
    }
    case tflite::kConcatenation: {
      const auto& params = *static_cast<const tflite::ConcatenationParams*>(data);
      py::dict result;
      result["axis"] = params.axis;
      result["activation"] = params.activation;
      return result;
    }
    case tflite::kStridedSlice: {
      const auto& params = *static_cast<const tflite::StridedSliceParams*>(data);
      py::dict result;
      result["begin_mask"] = params.begin_mask;
      result["end_mask"] = params.end_mask;
      result["ellipsis_mask"] = params.ellipsis_mask;
      result["new_axis_mask"] = params.new_axis_mask;
      result["shrink_axis_mask"] = params.shrink_axis_mask;
      return result;
    }
    default:
      return py::none();
  }
}

py::dict snapshot_node(Context* context, int32_t index) {
  Node* node = nullptr;
  Registration* registration = nullptr;
  if (context->get_node_and_registration(context, index, &node, &registration) != Status::kOk ||
      node == nullptr || registration == nullptr) {
    throw std::runtime_error("the runtime does not describe node " + std::to_string(index));
  }
  py::dict result;
  result["index"] = index;
  result["builtin_code"] = registration->builtin_code;
  result["custom_name"] = text(registration->custom_name);
  result["version"] = registration->version;
  result["inputs"] = int_tuple(node->inputs);
  result["outputs"] = int_tuple(node->outputs);
  result["options"] = builtin_options(registration->builtin_code, node->builtin_data);
  return result;
}

}  // namespace

py::list snapshot_tensors(const Context& context) {
  py::list tensors;
  for (size_t i = 0; i < context.tensors_size; ++i) {
    tensors.append(snapshot_tensor(context.tensors[i], i));
  }
  return tensors;
}

py::dict snapshot_context(Context* context) {
  IntArray* plan = nullptr;
  if (context->get_execution_plan(context, &plan) != Status::kOk || plan == nullptr) {
    throw std::runtime_error("the runtime does not give its execution plan");
  }
  // The runtime reuses the array in later calls.
  const std::vector<int32_t> order(plan->begin(), plan->end());
  py::list nodes;
  for (const int32_t index : order) nodes.append(snapshot_node(context, index));
  py::dict result;
  result["tensors"] = snapshot_tensors(*context);
  result["nodes"] = nodes;
  return result;
}

}  // namespace rk3588
