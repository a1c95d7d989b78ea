// The C ABI between LiteRT's runtime and the plugins of an accelerator, as far as ours use it.
//
// Written by hand from LiteRT's documented interface, and measured on ai-edge-litert 2.3.0: what
// the runtime hands over says its size and version in a header, which every user here checks.
// Tables of functions only grow at their ends. Pointers that plugins never look into are void*.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rk3588::litert {

enum Status : int32_t {
  kOk = 0,
  kInvalidArgument = 1,
  kMemoryFailure = 2,
  kRuntimeFailure = 3,
  kUnsupported = 5,
  kNotFound = 6,
  kWrongVersion = 8,
  kUnsupportedRuntimeVersion = 4000,
};

// The first member of what both sides share.
struct AbiHeader {
  uint16_t struct_size;
  uint16_t major;
  uint16_t minor;
  uint16_t reserved;
};
static_assert(sizeof(AbiHeader) == 8);

// Of the whole interface; a plugin has to name the runtime's own.
struct ApiVersion {
  int32_t major;
  int32_t minor;
  int32_t patch;
};
static_assert(sizeof(ApiVersion) == 12);

// What ai-edge-litert 2.3.0 compares with. From the versioned interface on it is 1.
inline constexpr ApiVersion kApiVersion = {0, 1, 0};
inline constexpr uint16_t kAbiMajor = 1;

enum HardwareAccelerator : int32_t { kNpu = 4 };
enum BufferType : int32_t { kHostMemory = 1 };
enum LockMode : int32_t { kRead = 0, kWrite = 1 };
enum ExecutableType : int32_t { kMlModel = 2 };
enum Capabilities : int32_t { kBasic = 1 };

struct Any {
  int32_t type;
  union {
    int64_t number;
    const char* text;
  };
};
static_assert(sizeof(Any) == 16);
static_assert(offsetof(Any, text) == 8);
inline constexpr int32_t kAnyText = 8;

enum EnvironmentTag : int32_t { kCompilerPluginFolder = 0, kDispatchFolder = 1 };

inline constexpr size_t kMaxRank = 8;

struct RankedTensorType {
  int32_t element;  // the numbers of TfLiteType
  uint32_t rank_and_strides;
  int32_t dimensions[kMaxRank];
  uint32_t strides[kMaxRank];

  size_t rank() const { return rank_and_strides & 0x7f; }
  bool has_strides() const { return (rank_and_strides & 0x80) != 0; }
};
static_assert(sizeof(RankedTensorType) == 72);
static_assert(offsetof(RankedTensorType, dimensions) == 8);
static_assert(offsetof(RankedTensorType, strides) == 40);

// Where byte code lies: `offset` bytes behind `base`.
struct MemoryBuffer {
  int32_t descriptor;
  const void* base;
  size_t offset;
  size_t size;
  size_t base_file_offset;
};
static_assert(sizeof(MemoryBuffer) == 40);
static_assert(offsetof(MemoryBuffer, offset) == 16);

// The runtime's functions for dispatch libraries (version 1.2, of 416 bytes, in 2.3.0).
struct RuntimeContext {
  AbiHeader abi;
  Status (*create_requirements)(int32_t types, const int32_t* type, size_t bytes, int32_t strides,
                                const uint32_t* stride, void** requirements);
  void* external_buffers[8];
  Status (*get_opaque_options)(void* options, void** opaque);
  Status (*find_opaque_options)(void* opaque, const char* identifier, void** payload);
  void* destroy_options;
  void* get_environment_options;
  Status (*get_environment_value)(void* environment_options, int32_t tag, Any* value);
  void* environments_and_delegates[5];
  void* create_buffers[3];
  Status (*get_buffer_type)(void* buffer, int32_t* type);
  void* get_buffer_tensor_type;
  Status (*get_buffer_size)(void* buffer, size_t* bytes);
  Status (*get_buffer_packed_size)(void* buffer, size_t* bytes);  // of its tensor
  Status (*get_buffer_offset)(void* buffer, size_t* bytes);
  Status (*lock_buffer)(void* buffer, void** memory, LockMode mode);
  Status (*unlock_buffer)(void* buffer);
};
static_assert(offsetof(RuntimeContext, create_requirements) == 8);
static_assert(offsetof(RuntimeContext, get_opaque_options) == 80);
static_assert(offsetof(RuntimeContext, find_opaque_options) == 88);
static_assert(offsetof(RuntimeContext, get_environment_value) == 112);
static_assert(offsetof(RuntimeContext, get_buffer_type) == 184);
static_assert(offsetof(RuntimeContext, get_buffer_size) == 200);
static_assert(offsetof(RuntimeContext, get_buffer_packed_size) == 208);
static_assert(offsetof(RuntimeContext, get_buffer_offset) == 216);
static_assert(offsetof(RuntimeContext, lock_buffer) == 224);
static_assert(offsetof(RuntimeContext, unlock_buffer) == 232);
static_assert(sizeof(RuntimeContext) == 240);

// The runtime's functions for compiler plugins (version 1.3, of 1,408 bytes, in 2.3.0). Those that
// read a model are Python's (delegate/model/litert_graph.py).
struct CompilerContext {
  AbiHeader abi;
  void* graph[33];
  Status (*get_opaque_options)(void* options, void** opaque);
  Status (*find_opaque_options)(void* opaque, const char* identifier, void** payload);
  void* destroy_options;
  Status (*get_environment_value)(void* environment_options, int32_t tag, Any* value);
};
static_assert(offsetof(CompilerContext, get_opaque_options) == 272);
static_assert(offsetof(CompilerContext, get_environment_value) == 296);
static_assert(sizeof(CompilerContext) == 304);

// What a dispatch library offers. Functions that it lacks are null.
struct DispatchFunctions {
  Status (*initialize)(const RuntimeContext*, void* environment, void* options);
  Status (*get_vendor_id)(const char**);
  Status (*get_build_id)(const char**);
  Status (*get_capabilities)(int32_t*);
  Status (*device_create)(const RuntimeContext*, void* options, void** device);
  Status (*device_destroy)(void* device);
  Status (*get_input_requirements)(void* invocation, int32_t index, const RankedTensorType*,
                                   void** requirements);
  Status (*get_output_requirements)(void* invocation, int32_t index, const RankedTensorType*,
                                    void** requirements);
  Status (*register_buffer)(void* device, void* buffer, uint64_t* handle);
  Status (*unregister_buffer)(void* device, uint64_t handle);
  Status (*invocation_create)(const RuntimeContext*, void* device, ExecutableType type,
                              const MemoryBuffer* byte_code, const char* function, int32_t inputs,
                              int32_t outputs, void** invocation);
  Status (*invocation_destroy)(void* invocation);
  Status (*set_scheduling)(void* invocation, const void* scheduling);
  Status (*attach_input)(void* invocation, int32_t index, uint64_t handle);
  Status (*attach_output)(void* invocation, int32_t index, uint64_t handle);
  Status (*detach_input)(void* invocation, int32_t index, uint64_t handle);
  Status (*detach_output)(void* invocation, int32_t index, uint64_t handle);
  Status (*invoke)(void* invocation);
  Status (*start_metrics)(void* invocation, int32_t detail);
  void* metrics[4];
  Status (*check_runtime)(ApiVersion version, void* environment_options, void* options);
  Status (*set_run_options)(void* invocation, void* options);
  Status (*get_hooks)(void* device, void** hook, void** data);
};
static_assert(sizeof(DispatchFunctions) == 26 * 8);
static_assert(offsetof(DispatchFunctions, invoke) == 17 * 8);
static_assert(offsetof(DispatchFunctions, check_runtime) == 23 * 8);

// What runtimes with the versioned interface ask for (LiteRtDispatchQueryInterface).
struct DispatchInterface {
  AbiHeader abi;
  DispatchFunctions functions;
};

enum InterfaceId : int32_t { kBasicInterface = 0 };

// What ai-edge-litert 2.3.0 gives to be filled in (LiteRtDispatchGetApi). Up to 2.2 the struct has
// no header and begins with `version`, which is zero then.
struct DispatchApi {
  AbiHeader abi;
  ApiVersion version;
  const DispatchFunctions* functions;
  const void* async_functions;
  const void* graph_functions;
  const void* buffer_handlers;
};
static_assert(sizeof(DispatchApi) == 56);
static_assert(offsetof(DispatchApi, version) == 8);
static_assert(offsetof(DispatchApi, functions) == 24);

struct Plugin;
struct CompiledResult;

// What runtimes with the versioned interface ask a compiler plugin for
// (LiteRtCompilerPluginQueryInterface); ai-edge-litert 2.3.0 looks its functions up one by one.
struct CompilerInterface {
  AbiHeader abi;
  Status (*get_version)(ApiVersion*);
  const char* (*get_manufacturer)();
  Status (*create)(const CompilerContext*, Plugin**, void* environment_options, void* options);
  void (*destroy)(Plugin*);
  Status (*get_hardware)(Plugin*, int32_t*);
  Status (*count_models)(Plugin*, uint64_t*);
  Status (*get_model)(Plugin*, uint64_t index, const char** name);
  Status (*partition)(Plugin*, const char* model, void* subgraph, void* selected);
  Status (*compile)(Plugin*, const char* model, void* partitions, CompiledResult**);
  void (*destroy_result)(CompiledResult*);
  Status (*get_byte_code)(CompiledResult*, uint64_t index, const void** bytes, size_t* size);
  Status (*count_programs)(CompiledResult*, uint64_t*);
  Status (*get_call)(CompiledResult*, uint64_t call, const void** name, size_t* size,
                     uint64_t* program);
  Status (*count_calls)(CompiledResult*, uint64_t*);
  Status (*register_transformations)(Plugin*, void** transformations, uint64_t*);
  Status (*get_sdk_version)(Plugin*, const char**);
  void* get_jit_handle;  // optional: programs are byte code
  Status (*check_compatibility)(ApiVersion, Plugin*, void* environment_options, void* options,
                                const char* model);
};
static_assert(sizeof(CompilerInterface) == 19 * 8);

// Whether a table of the runtime's reaches to what `Table` declares of it.
template <typename Table>
bool reaches(const Table* table) {
  return table != nullptr && table->abi.major == kAbiMajor &&
         table->abi.struct_size >= sizeof(Table);
}

}  // namespace rk3588::litert

// What the doors (door/) look up in the delegate's library.
#define RK3588_LITERT_ENTRY extern "C" __attribute__((visibility("default")))

// Fills in what ai-edge-litert 2.3.0 gives.
RK3588_LITERT_ENTRY rk3588::litert::Status rk3588_litert_dispatch_api(
    rk3588::litert::DispatchApi* api);
RK3588_LITERT_ENTRY const rk3588::litert::DispatchInterface* rk3588_litert_dispatch_interface();
RK3588_LITERT_ENTRY const rk3588::litert::CompilerInterface* rk3588_litert_compiler_interface();
