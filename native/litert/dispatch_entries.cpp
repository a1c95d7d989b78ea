// What LiteRT's dispatch library for the NPU does: runs Programs as operators of a CompiledModel.
//
// No LiteRT library is linked: all of the runtime's functions come from the table that it hands
// over. Two entries for one table of functions of ours (door/dispatch.cpp).
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "dispatch_device.h"
#include "given_options.h"
#include "guard.h"

namespace rk3588::litert {
namespace {

constexpr char kVendor[] = "rk3588";
constexpr char kBuild[] = "rk3588-delegate, program format 7";
static_assert(kProgramFormatVersion == 7);

using Side = Invocation::Side;

// What the environment says for the next device of this thread: LiteRT asks about its version, with
// the environment, right before it makes a device, without.
thread_local std::string t_folder;
const RuntimeContext* g_runtime = nullptr;  // the process's one

void require_runtime(const RuntimeContext* runtime) {
  if (reaches(runtime)) return;
  throw StatusError(kWrongVersion,
                    runtime == nullptr
                        ? std::string("LiteRT hands over no functions")
                        : "this LiteRT's functions are version " +
                              std::to_string(runtime->abi.major) + "." +
                              std::to_string(runtime->abi.minor) + " of " +
                              std::to_string(runtime->abi.struct_size) +
                              " bytes; ai-edge-litert 2.3 and later ones of version 1 are known");
}

Invocation& invocation_of(void* handle) { return required(static_cast<Invocation*>(handle)); }

// The devices that LiteRT holds, by handle; that of a destroyed one is never another's. In which
// order LiteRT takes a model down is its own affair (2.3.0: the device last).
// Never destroyed: models are taken down at exit, too.
using Devices = Handles<std::shared_ptr<DispatchDevice>>;
Devices& devices() {
  static Devices* all = std::make_unique<Devices>().release();
  return *all;
}

uint64_t number(void* handle) { return reinterpret_cast<uintptr_t>(handle); }

std::shared_ptr<DispatchDevice> required_device(void* handle) {
  std::shared_ptr<DispatchDevice> found = devices().find(number(handle));
  if (found == nullptr) throw StatusError(kInvalidArgument, "there is no such device");
  return found;
}

Status initialize(const RuntimeContext* runtime, void*, void*) {
  return guarded([&] {
    require_runtime(runtime);
    g_runtime = runtime;
  });
}

Status get_vendor_id(const char** id) {
  return guarded([&] { required(id) = kVendor; });
}

Status get_build_id(const char** id) {
  return guarded([&] { required(id) = kBuild; });
}

Status get_capabilities(int32_t* capabilities) {
  return guarded([&] { required(capabilities) = kBasic; });
}

Status check_runtime(ApiVersion version, void* environment_options, void*) {
  return guarded([&] {
    const bool is_known =
        (version.major == kApiVersion.major && version.minor == kApiVersion.minor) ||
        version.major >= kAbiMajor;
    if (!is_known) {
      throw StatusError(kUnsupportedRuntimeVersion,
                        "LiteRT's interface is version " + std::to_string(version.major) + "." +
                            std::to_string(version.minor) +
                            "; this library knows 0.1 (ai-edge-litert 2.3), 1 and later ones");
    }
    require_runtime(g_runtime);
    t_folder = environment_text(*g_runtime, environment_options, kDispatchFolder);
  });
}

Status device_create(const RuntimeContext* runtime, void* options, void** device) {
  return guarded([&] {
    require_runtime(runtime);
    const NativeOptions chosen = parse_options(given_text(*runtime, options, t_folder));
    const uint64_t handle = devices().add(std::make_shared<DispatchDevice>(*runtime, chosen));
    required(device) = reinterpret_cast<void*>(handle);
  });
}

Status device_destroy(void* device) {
  return guarded([&] { devices().take(number(device)).reset(); });
}

template <Side side>
Status get_requirements(void* invocation, int32_t index, const RankedTensorType* type,
                        void** result) {
  return guarded([&] {
    Invocation& found = invocation_of(invocation);
    const size_t bytes = found.bytes_of(side, index, required(type));
    const int32_t types[] = {kHostMemory};
    const Status status =
        found.runtime().create_requirements(1, types, bytes, 0, nullptr, &required(result));
    if (status != kOk) throw StatusError(status, "LiteRT refuses a tensor's requirements");
  });
}

Status register_buffer(void* device, void* buffer, uint64_t* handle) {
  return guarded([&] { required(handle) = required_device(device)->register_buffer(buffer); });
}

Status unregister_buffer(void* device, uint64_t handle) {
  return guarded([&] {
    const std::shared_ptr<DispatchDevice> found = devices().find(number(device));
    if (found != nullptr) found->unregister_buffer(handle);
  });
}

Status invocation_create(const RuntimeContext*, void* device, ExecutableType type,
                         const MemoryBuffer* byte_code, const char*, int32_t inputs,
                         int32_t outputs, void** invocation) {
  return guarded([&] {
    if (type != kMlModel) {
      throw StatusError(kUnsupported, "executables of type " + std::to_string(type) +
                                          " are not supported, only byte code in the model");
    }
    const MemoryBuffer& code = required(byte_code);
    if (code.base == nullptr || inputs < 0 || outputs < 0) {
      throw StatusError(kInvalidArgument, "the operator has no byte code");
    }
    const Span<const uint8_t> program(static_cast<const uint8_t*>(code.base) + code.offset,
                                      code.size);
    required(invocation) =
        std::make_unique<Invocation>(required_device(device), program, static_cast<size_t>(inputs),
                                     static_cast<size_t>(outputs))
            .release();
  });
}

Status invocation_destroy(void* invocation) {
  return guarded([&] { std::unique_ptr<Invocation>(&invocation_of(invocation)).reset(); });
}

template <Side side>
Status attach(void* invocation, int32_t index, uint64_t handle) {
  return guarded([&] { invocation_of(invocation).attach(side, index, handle); });
}

template <Side side>
Status detach(void* invocation, int32_t index, uint64_t handle) {
  return guarded([&] { invocation_of(invocation).detach(side, index, handle); });
}

Status invoke(void* invocation) {
  return guarded([&] { invocation_of(invocation).invoke(); });
}

// LiteRT asks before every run, and goes on where there is nothing of the kind.
Status set_scheduling(void*, const void*) { return kUnsupported; }
Status set_run_options(void*, void*) { return kUnsupported; }
Status start_metrics(void*, int32_t) { return kUnsupported; }

Status get_hooks(void*, void** hook, void** data) {
  return guarded([&] {
    required(hook) = nullptr;
    if (data != nullptr) *data = nullptr;
  });
}

constexpr DispatchFunctions functions() {
  DispatchFunctions all{};
  all.initialize = initialize;
  all.get_vendor_id = get_vendor_id;
  all.get_build_id = get_build_id;
  all.get_capabilities = get_capabilities;
  all.device_create = device_create;
  all.device_destroy = device_destroy;
  all.get_input_requirements = get_requirements<Side::kInput>;
  all.get_output_requirements = get_requirements<Side::kOutput>;
  all.register_buffer = register_buffer;
  all.unregister_buffer = unregister_buffer;
  all.invocation_create = invocation_create;
  all.invocation_destroy = invocation_destroy;
  all.set_scheduling = set_scheduling;
  all.attach_input = attach<Side::kInput>;
  all.attach_output = attach<Side::kOutput>;
  all.detach_input = detach<Side::kInput>;
  all.detach_output = detach<Side::kOutput>;
  all.invoke = invoke;
  all.start_metrics = start_metrics;
  all.check_runtime = check_runtime;
  all.set_run_options = set_run_options;
  all.get_hooks = get_hooks;
  return all;
}

constexpr DispatchInterface kInterface = {{sizeof(DispatchInterface), kAbiMajor, 0, 0},
                                          functions()};

}  // namespace
}  // namespace rk3588::litert

rk3588::litert::Status rk3588_litert_dispatch_api(rk3588::litert::DispatchApi* api) {
  using namespace rk3588::litert;
  return guarded([&] {
    DispatchApi& filled = required(api);
    // Before 2.3 the struct has no header, and what lies in its place is zero.
    if (filled.abi.major != kAbiMajor || filled.abi.struct_size < sizeof(DispatchApi)) {
      throw StatusError(kWrongVersion,
                        "this LiteRT is not ai-edge-litert 2.3 or a later one: its interface for "
                        "accelerators is another");
    }
    filled.version = kApiVersion;
    filled.functions = &kInterface.functions;
    filled.async_functions = nullptr;
    filled.graph_functions = nullptr;
    filled.buffer_handlers = nullptr;
  });
}

const rk3588::litert::DispatchInterface* rk3588_litert_dispatch_interface() {
  return &rk3588::litert::kInterface;
}
