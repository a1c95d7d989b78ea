// libLiteRtCompilerPlugin_rk3588.so: the functions that ai-edge-litert 2.3.0 looks up one by one,
// and LiteRtCompilerPluginQueryInterface of later ones.
#include "behind.h"
#include "litert/litert_abi.h"

using namespace rk3588::litert;

namespace {

const CompilerInterface* compiler() {
  static auto* give =
      behind<decltype(rk3588_litert_compiler_interface)>("rk3588_litert_compiler_interface");
  return give == nullptr ? nullptr : give();
}

template <typename Member, typename... Arguments>
Status forward(Member member, Arguments... arguments) {
  const CompilerInterface* found = compiler();
  return found == nullptr ? kRuntimeFailure : (found->*member)(arguments...);
}

}  // namespace

RK3588_LITERT_ENTRY Status LiteRtGetCompilerPluginSupportedHardware(Plugin* plugin,
                                                                    int32_t* hardware) {
  return forward(&CompilerInterface::get_hardware, plugin, hardware);
}

RK3588_LITERT_ENTRY Status LiteRtGetNumCompilerPluginSupportedSocModels(Plugin* plugin,
                                                                        uint64_t* count) {
  return forward(&CompilerInterface::count_models, plugin, count);
}

RK3588_LITERT_ENTRY Status LiteRtGetCompilerPluginSupportedSocModel(Plugin* plugin, uint64_t index,
                                                                    const char** name) {
  return forward(&CompilerInterface::get_model, plugin, index, name);
}

RK3588_LITERT_ENTRY Status LiteRtGetCompilerPluginSDKVersion(Plugin* plugin, const char** version) {
  return forward(&CompilerInterface::get_sdk_version, plugin, version);
}

RK3588_LITERT_ENTRY Status LiteRtCompilerPluginPartition(Plugin* plugin, const char* model,
                                                         void* subgraph, void* selected) {
  return forward(&CompilerInterface::partition, plugin, model, subgraph, selected);
}

RK3588_LITERT_ENTRY Status LiteRtCompilerPluginCompile(Plugin* plugin, const char* model,
                                                       void* partitions, CompiledResult** result) {
  return forward(&CompilerInterface::compile, plugin, model, partitions, result);
}

RK3588_LITERT_ENTRY Status LiteRtGetCompiledResultByteCode(CompiledResult* result, uint64_t index,
                                                           const void** bytes, size_t* size) {
  return forward(&CompilerInterface::get_byte_code, result, index, bytes, size);
}

RK3588_LITERT_ENTRY Status LiteRtCompiledResultNumByteCodeModules(CompiledResult* result,
                                                                  uint64_t* count) {
  return forward(&CompilerInterface::count_programs, result, count);
}

RK3588_LITERT_ENTRY Status LiteRtGetCompiledResultCallInfo(CompiledResult* result, uint64_t call,
                                                           const void** name, size_t* size,
                                                           uint64_t* program) {
  return forward(&CompilerInterface::get_call, result, call, name, size, program);
}

RK3588_LITERT_ENTRY Status LiteRtGetNumCompiledResultCalls(CompiledResult* result,
                                                           uint64_t* count) {
  return forward(&CompilerInterface::count_calls, result, count);
}

RK3588_LITERT_ENTRY Status LiteRtCompilerPluginRegisterAllTransformations(Plugin* plugin,
                                                                          void** transformations,
                                                                          uint64_t* count) {
  return forward(&CompilerInterface::register_transformations, plugin, transformations, count);
}

RK3588_LITERT_ENTRY Status LiteRtCompilerPluginCheckCompilerCompatibility(
    ApiVersion version, Plugin* plugin, void* environment, void* options, const char* model) {
  return forward(&CompilerInterface::check_compatibility, version, plugin, environment, options,
                 model);
}

RK3588_LITERT_ENTRY Status LiteRtGetCompilerPluginVersion(ApiVersion* version) {
  return forward(&CompilerInterface::get_version, version);
}

RK3588_LITERT_ENTRY Status LiteRtCreateCompilerPlugin(const CompilerContext* context,
                                                      Plugin** plugin, void* environment,
                                                      void* options) {
  return forward(&CompilerInterface::create, context, plugin, environment, options);
}

RK3588_LITERT_ENTRY const char* LiteRtGetCompilerPluginSocManufacturer() {
  return compiler() == nullptr ? "" : compiler()->get_manufacturer();
}

RK3588_LITERT_ENTRY void LiteRtDestroyCompilerPlugin(Plugin* plugin) {
  if (compiler() != nullptr) compiler()->destroy(plugin);
}

RK3588_LITERT_ENTRY void LiteRtDestroyCompiledResult(CompiledResult* result) {
  if (compiler() != nullptr) compiler()->destroy_result(result);
}

RK3588_LITERT_ENTRY Status LiteRtCompilerPluginQueryInterface(InterfaceId interface,
                                                              ApiVersion version,
                                                              const void** result) {
  if (interface != kBasicInterface || version.major < kAbiMajor) return kUnsupported;
  if (result == nullptr) return kInvalidArgument;
  *result = compiler();
  return *result == nullptr ? kRuntimeFailure : kOk;
}
