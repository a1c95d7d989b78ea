#include "snapshot.h"

#include <pybind11/pybind11.h>

#include <string>

#include "gil.h"
#include "tflite/file_pages.h"
#include "tflite/graph_access.h"

namespace py = pybind11;

namespace rk3588 {
namespace {

using tflite::Context;
using tflite::IntArray;
using tflite::Status;
using tflite::Tensor;

py::str text(const std::string& bytes) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace");
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

// A NumPy array of `content`. NumPy may give Python's lock to others, and so may an import.
py::object array_of(const py::object& content, const char* type) {
  return call(import_module("numpy").attr("frombuffer"), content, type);
}

template <typename Value>
py::object array_of(const Value* values, py::ssize_t count, const char* type) {
  const auto* bytes = count == 0 ? "" : reinterpret_cast<const char*>(values);
  return array_of(py::bytes(bytes, static_cast<size_t>(count) * sizeof(Value)), type);
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
  result["scale"] = array_of(scales == 0 ? nullptr : affine.scale->begin(), scales, "float32");
  result["zero_point"] =
      array_of(zero_points == 0 ? nullptr : affine.zero_point->begin(), zero_points, "int32");
  result["axis"] = affine.quantized_dimension;
  return result;
}

py::object int_array(const IntArray* array) {
  const py::ssize_t size = array == nullptr ? 0 : array->size;
  return array_of(size == 0 ? nullptr : array->begin(), size, "int32");
}

py::object sparsity(const Tensor& tensor) {
  if (tensor.sparsity == nullptr || !tensor.is_constant()) return py::none();
  const tflite::Sparsity& found = *tensor.sparsity;
  py::list levels;
  for (int32_t i = 0; found.levels != nullptr && i < found.level_count; ++i) {
    const tflite::SparseLevel& level = found.levels[i];
    const bool is_compressed = level.format != tflite::kDenseLevel;
    levels.append(py::make_tuple(level.format, level.dense_size,
                                 int_array(is_compressed ? level.segments : nullptr),
                                 int_array(is_compressed ? level.indices : nullptr)));
  }
  py::dict result;
  result["traversal_order"] = int_tuple(found.traversal_order);
  result["block_map"] = int_tuple(found.block_map);
  result["levels"] = levels;
  return result;
}

py::object constant_bytes(const Tensor& tensor) {
  if (!tensor.is_constant() || tensor.data == nullptr) return py::none();
  const py::memoryview view =
      py::memoryview::from_memory(tensor.data, static_cast<py::ssize_t>(tensor.bytes));
  return array_of(view, "uint8");
}

py::dict snapshot_tensor(const Tensor& tensor, size_t index, const MappedMemory& readable) {
  py::dict result;
  result["index"] = index;
  result["name"] = text(readable.text(tensor.name));
  result["type"] = tensor.type;
  result["shape"] = int_tuple(tensor.dims);
  result["shape_signature"] = int_tuple(tensor.dims_signature);
  result["allocation_type"] = tensor.allocation_type;
  result["is_variable"] = tensor.is_variable;
  result["is_sparse"] = tensor.sparsity != nullptr;
  result["sparsity"] = sparsity(tensor);
  result["quantization"] = quantization(tensor);
  result["data"] = constant_bytes(tensor);
  return result;
}

// Returns the model's metadata under `name`; None: nothing, or the runtime does not tell. A
// runtime's context that does not reach to the function has no code there.
py::object model_metadata(const Context& context, const char* name) {
  const auto* code = reinterpret_cast<const uint8_t*>(context.get_model_metadata);
  const MappedMemory executable(MappedMemory::Use::kExecute);
  if (code == nullptr || !executable.touches(Span<const uint8_t>(code, 1))) return py::none();
  const char* data = nullptr;
  size_t bytes = 0;
  if (context.get_model_metadata(&context, name, &data, &bytes) != Status::kOk || data == nullptr) {
    return py::none();
  }
  return py::bytes(data, bytes);
}

// The first bytes of the operator's options, as many as its reader asks for; None without options.
py::object option_bytes(int32_t builtin_code, const void* data, const OptionSizes& sizes) {
  const auto found = sizes.find(builtin_code);
  if (data == nullptr || found == sizes.end()) return py::none();
  return py::bytes(static_cast<const char*>(data), found->second);
}

py::dict snapshot_node(Context* context, int32_t index, const OptionSizes& sizes) {
  const auto [node, registration] = operation_at(context, index);
  py::dict result;
  result["index"] = index;
  result["builtin_code"] = registration->builtin_code;
  const char* custom = registration->custom_name;
  result["custom_name"] = text(custom == nullptr ? "" : custom);
  result["version"] = registration->version;
  result["inputs"] = int_tuple(node->inputs);
  result["outputs"] = int_tuple(node->outputs);
  result["options"] = option_bytes(registration->builtin_code, node->builtin_data, sizes);
  return result;
}

}  // namespace

py::list snapshot_tensors(const Context& context) {
  const MappedMemory readable(MappedMemory::Use::kRead);
  py::list tensors;
  for (size_t i = 0; i < context.tensors_size; ++i) {
    tensors.append(snapshot_tensor(context.tensors[i], i, readable));
  }
  return tensors;
}

py::dict snapshot_context(Context* context, const OptionSizes& sizes) {
  py::list nodes;
  for (const int32_t index : execution_plan(context)) {
    nodes.append(snapshot_node(context, index, sizes));
  }
  py::dict result;
  result["tensors"] = snapshot_tensors(*context);
  result["nodes"] = nodes;
  result["reduced_precision"] = model_metadata(*context, "reduced_precision_support");
  return result;
}

}  // namespace rk3588
