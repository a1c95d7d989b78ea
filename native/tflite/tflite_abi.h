// The classic C ABI between TensorFlow Lite and a delegate, as far as this delegate uses it.
//
// Written by hand from the layout that every runtime since 2.9 shares (tflite-runtime,
// ai-edge-litert, tensorflow; 64-bit little-endian targets): structs only ever grew at their ends,
// and no symbol of the runtime is needed because everything is reached through the function
// pointers of Context. The static_asserts below pin the place of every field that is touched, and
// with it the room of those between.
#pragma once

#include <cstddef>
#include <cstdint>

#include "chip/chip_gen.h"

namespace rk3588::tflite {

enum class Status : int32_t { kOk = 0, kError = 1 };

// TfLiteType values that this delegate meets.
enum Type : int32_t {
  kFloat32 = 1,
  kInt32 = 2,
  kUInt8 = 3,
  kInt16 = 7,
  kInt8 = 9,
  kFloat16 = 10,
  kInt4 = 18
};

// The type of tensors of an element.
inline Type type_of(Element element) {
  constexpr Type kTypes[] = {kUInt8, kInt8, kInt16, kInt32, kFloat16, kFloat32};
  static_assert(sizeof(kTypes) / sizeof(kTypes[0]) == kElementCount);
  return kTypes[static_cast<size_t>(element)];
}

// TfLiteAllocationType: where a tensor's bytes live.
enum AllocationType : int32_t { kMmapRo = 1, kArenaRw = 2, kDynamic = 4, kPersistentRo = 5 };

enum BuiltinOperator : int32_t {
  kDequantizeOp = 6,
  kCustomOp = 32,
  kDelegateOp = 51,
  kDensifyOp = 124
};

enum QuantizationType : int32_t { kNoQuantization = 0, kAffineQuantization = 1 };

// Graphs with dynamic tensors are not refused, and kernels outlive a resize. The other flag of this
// kind, kRequirePropagatedShapes, would be of no use: the runtime then prepares the original plan
// too, but only up to the first kernel that tells its shapes while it runs.
enum DelegateFlags : int64_t { kAllowDynamicTensors = 1 };

// `size` elements follow the header.
struct IntArray {
  int32_t size;
  const int32_t* begin() const { return &size + 1; }
  const int32_t* end() const { return begin() + size; }
};

struct FloatArray {
  int32_t size;
  const float* begin() const { return reinterpret_cast<const float*>(&size + 1); }
};

struct Context;
struct Delegate;

// `params` points to this only if the quantisation's type is kAffineQuantization. `zero_point` may
// have one entry for many scales.
struct AffineQuantization {
  FloatArray* scale;
  IntArray* zero_point;
  int32_t quantized_dimension;
};
static_assert(sizeof(AffineQuantization) == 24);
static_assert(offsetof(AffineQuantization, zero_point) == 8);
static_assert(offsetof(AffineQuantization, quantized_dimension) == 16);

struct Quantization {
  int32_t type;
  void* params;
};

enum SparseFormat : int32_t { kDenseLevel = 0 };

// A level of a sparse tensor. Arrays only of compressed ones.
struct SparseLevel {
  int32_t format;
  int32_t dense_size;
  const IntArray* segments;
  const IntArray* indices;
};
static_assert(sizeof(SparseLevel) == 24);
static_assert(offsetof(SparseLevel, segments) == 8);

struct Sparsity {
  const IntArray* traversal_order;
  const IntArray* block_map;
  const SparseLevel* levels;
  int32_t level_count;
};
static_assert(sizeof(Sparsity) == 32);
static_assert(offsetof(Sparsity, level_count) == 24);

struct QuantizationParams {
  float scale;
  int32_t zero_point;
};

// A tensor without a buffer of its delegate's.
inline constexpr int32_t kNoBufferHandle = -1;

struct Tensor {
  int32_t type;
  void* data;
  IntArray* dims;
  QuantizationParams params;
  int32_t allocation_type;
  size_t bytes;
  const void* allocation;
  const char* name;
  // Whose handle `buffer_handle` is; of a kernel's result always its delegate.
  Delegate* delegate;
  int32_t buffer_handle;
  // The buffer holds newer values than `data`.
  bool data_is_stale;
  bool is_variable;
  Quantization quantization;
  const Sparsity* sparsity;
  const IntArray* dims_signature;

  bool is_constant() const {
    return allocation_type == kMmapRo || allocation_type == kPersistentRo;
  }
};
static_assert(sizeof(Tensor) == 112);
static_assert(offsetof(Tensor, type) == 0);
static_assert(offsetof(Tensor, data) == 8);
static_assert(offsetof(Tensor, dims) == 16);
static_assert(offsetof(Tensor, allocation_type) == 32);
static_assert(offsetof(Tensor, bytes) == 40);
static_assert(offsetof(Tensor, name) == 56);
static_assert(offsetof(Tensor, delegate) == 64);
static_assert(offsetof(Tensor, buffer_handle) == 72);
static_assert(offsetof(Tensor, data_is_stale) == 76);
static_assert(offsetof(Tensor, is_variable) == 77);
static_assert(offsetof(Tensor, quantization) == 80);
static_assert(offsetof(Quantization, params) == 8);
static_assert(offsetof(Tensor, sparsity) == 96);
static_assert(offsetof(Tensor, dims_signature) == 104);

struct Node {
  IntArray* inputs;
  IntArray* outputs;
  IntArray* intermediates;
  IntArray* temporaries;
  void* user_data;
  void* builtin_data;
  const void* custom_initial_data;
  int32_t custom_initial_data_size;
  Delegate* delegate;
  bool might_have_side_effect;
};
static_assert(sizeof(Node) == 80);
static_assert(offsetof(Node, inputs) == 0);
static_assert(offsetof(Node, outputs) == 8);
static_assert(offsetof(Node, temporaries) == 24);
static_assert(offsetof(Node, user_data) == 32);
static_assert(offsetof(Node, builtin_data) == 40);
static_assert(offsetof(Node, custom_initial_data) == 48);
static_assert(offsetof(Node, custom_initial_data_size) == 56);

// Handed over by value, so the runtime reads as many bytes as its own declaration has: the reserved
// bytes at the end keep a runtime with a longer struct inside ours. They must be zero.
struct Registration {
  void* (*init)(Context*, const char* buffer, size_t length);
  void (*free)(Context*, void* buffer);
  Status (*prepare)(Context*, Node*);
  Status (*invoke)(Context*, Node*);
  const char* (*profiling_string)(const Context*, const Node*);
  int32_t builtin_code;
  const char* custom_name;
  int32_t version;
  void* registration_external;
  void* async_kernel;
  uint64_t inplace_operator;
  uint8_t reserved[64];
};
static_assert(offsetof(Registration, init) == 0);
static_assert(offsetof(Registration, free) == 8);
static_assert(offsetof(Registration, prepare) == 16);
static_assert(offsetof(Registration, invoke) == 24);
static_assert(offsetof(Registration, builtin_code) == 40);
static_assert(offsetof(Registration, custom_name) == 48);
static_assert(offsetof(Registration, version) == 56);
static_assert(offsetof(Registration, reserved) == 88);

struct DelegateParams {
  Delegate* delegate;
  IntArray* nodes_to_replace;
  IntArray* input_tensors;
  IntArray* output_tensors;
};
static_assert(sizeof(DelegateParams) == 32);
static_assert(offsetof(DelegateParams, nodes_to_replace) == 8);
static_assert(offsetof(DelegateParams, input_tensors) == 16);
static_assert(offsetof(DelegateParams, output_tensors) == 24);

// GetExecutionPlan, GetNodeAndRegistration, PreviewDelegatePartitioning and
// ReplaceNodeSubsetsWithDelegateKernels work only inside Delegate::prepare and the kernels' init;
// elsewhere they are stubs that fail. `tensors` moves: read it again at every use.
struct Context {
  size_t tensors_size;
  Status (*get_execution_plan)(Context*, IntArray** plan);
  Tensor* tensors;
  void* impl;
  Status (*resize_tensor)(Context*, Tensor*, IntArray* new_size);
  void (*report_error)(Context*, const char* format, ...);
  Status (*add_tensors)(Context*, int32_t count, int32_t* first);
  Status (*get_node_and_registration)(Context*, int32_t node, Node**, Registration**);
  Status (*replace_node_subsets_with_delegate_kernels)(Context*, Registration,
                                                       const IntArray* nodes, Delegate*);
  int32_t recommended_num_threads;
  void* get_external_context;
  void* set_external_context;
  bool allow_fp32_relax_to_fp16;
  void* profiler;
  void* reserved_allocation[4];
  void* resize_tensor_explicit;
  Status (*preview_delegate_partitioning)(Context*, const IntArray* nodes, DelegateParams** params,
                                          int32_t* count);
  void* reserved_access[2];
  // Gives the model's metadata under `name`. Runtimes from before 2022 may end in front of it.
  Status (*get_model_metadata)(const Context*, const char* name, const char** data, size_t* bytes);
  void* reserved_subgraphs[2];

  // The number that the user asked for; 0: none.
  unsigned threads() const {
    return recommended_num_threads > 0 ? static_cast<unsigned>(recommended_num_threads) : 0;
  }
};
static_assert(sizeof(Context) == 200);
static_assert(offsetof(Context, tensors_size) == 0);
static_assert(offsetof(Context, get_execution_plan) == 8);
static_assert(offsetof(Context, tensors) == 16);
static_assert(offsetof(Context, resize_tensor) == 32);
static_assert(offsetof(Context, report_error) == 40);
static_assert(offsetof(Context, add_tensors) == 48);
static_assert(offsetof(Context, get_node_and_registration) == 56);
static_assert(offsetof(Context, replace_node_subsets_with_delegate_kernels) == 64);
static_assert(offsetof(Context, recommended_num_threads) == 72);
static_assert(offsetof(Context, preview_delegate_partitioning) == 152);
static_assert(offsetof(Context, get_model_metadata) == 176);

struct Delegate {
  void* data;
  Status (*prepare)(Context*, Delegate*);
  Status (*copy_from_buffer_handle)(Context*, Delegate*, int32_t handle, Tensor*);
  Status (*copy_to_buffer_handle)(Context*, Delegate*, int32_t handle, Tensor*);
  void (*free_buffer_handle)(Context*, Delegate*, int32_t* handle);
  int64_t flags;
  void* opaque_delegate_builder;
  // Never read by today's runtimes; zero in case a later one appends fields.
  uint8_t reserved[64];
};
static_assert(offsetof(Delegate, data) == 0);
static_assert(offsetof(Delegate, prepare) == 8);
static_assert(offsetof(Delegate, copy_from_buffer_handle) == 16);
static_assert(offsetof(Delegate, copy_to_buffer_handle) == 24);
static_assert(offsetof(Delegate, free_buffer_handle) == 32);
static_assert(offsetof(Delegate, flags) == 40);
static_assert(offsetof(Delegate, reserved) == 56);

using ReportError = void (*)(const char* message);

}  // namespace rk3588::tflite
