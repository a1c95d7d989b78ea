// What LiteRT's compiler plugin for the NPU does: hands models to the compiler, which is Python's.
//
// In a process that runs Python (or names one in RK3588_LIBPYTHON) the module
// delegate.compile.litert_plugin chooses operators and compiles them; in any other there is nothing
// to compile with, and only models that were compiled ahead of time use the NPU.
#include <memory>
#include <string>
#include <vector>

#include "chip/chip_gen.h"
#include "given_options.h"
#include "guard.h"
#include "host/library_path.h"
#include "loader/program_home.h"
#include "loader/python_process.h"

namespace rk3588::litert {

struct Plugin {
  std::unique_ptr<PythonObject> compiler;
  std::string version;
};

struct CompiledResult {
  std::vector<std::string> programs;
  std::vector<std::string> names;
};

namespace {

constexpr char kModule[] = "delegate.compile.litert_plugin";
constexpr char kManufacturer[] = "Rockchip";

// Gives Python a place for the next program.
void add_program(CompiledResult* result, const char* bytes, size_t size) noexcept {
  static_cast<void>(guarded([&] {
    result->names.push_back("partition_" + std::to_string(result->programs.size()));
    result->programs.emplace_back(bytes, size);
  }));
}

template <typename T>
const T& element(const std::vector<T>& all, uint64_t index) {
  if (index >= all.size()) throw StatusError(kInvalidArgument, "there is no such partition");
  return all[index];
}

uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

void require_python() {
  if (is_python_running()) return;
  const char* libpython = chosen_libpython();
  if (libpython == nullptr) {
    throw StatusError(kUnsupported,
                      "this process runs no Python, which compiles models, and the model was not "
                      "compiled ahead of time: it stays on the CPU; make a compiled model with: "
                      "rk3588-delegate compile MODEL --litert -o OUT.tflite");
  }
  const std::string problem = start_python(libpython);
  if (problem.empty()) return;
  throw StatusError(kUnsupported, "RK3588_LIBPYTHON cannot be loaded (" + problem + ")");
}

Plugin* make_plugin(const CompilerContext* context, void* environment, void* options) {
  if (!reaches(context)) {
    throw StatusError(kWrongVersion,
                      "this LiteRT's functions for compilers are not those of ai-edge-litert 2.3 "
                      "or a later one");
  }
  require_python();
  const std::string folder = environment_text(*context, environment, kCompilerPluginFolder);
  std::string text;
  for (const auto& [key, value] : split_options(given_text(*context, options, folder))) {
    text += key + "=" + value + "\n";
  }
  auto plugin = std::make_unique<Plugin>();
  plugin->compiler =
      std::make_unique<PythonObject>(kModule, package_parent(), "Plugin", number(context), text);
  plugin->version = plugin->compiler->text("version");
  return plugin.release();
}

Status get_version(ApiVersion* version) {
  return guarded([&] { required(version) = kApiVersion; });
}

const char* get_manufacturer() { return kManufacturer; }

Status create(const CompilerContext* context, Plugin** plugin, void* environment, void* options) {
  return guarded([&] { required(plugin) = make_plugin(context, environment, options); });
}

void destroy(Plugin* plugin) {
  static_cast<void>(guarded([&] { std::unique_ptr<Plugin>(plugin).reset(); }));
}

Status get_hardware(Plugin*, int32_t* hardware) {
  return guarded([&] { required(hardware) = kNpu; });
}

Status count_models(Plugin*, uint64_t* count) {
  return guarded([&] { required(count) = std::size(kChips); });
}

Status get_model(Plugin*, uint64_t index, const char** name) {
  return guarded([&] {
    if (index >= std::size(kChips)) throw StatusError(kInvalidArgument, "there is no such chip");
    required(name) = kChips[index]->name.data();
  });
}

Status get_sdk_version(Plugin* plugin, const char** version) {
  return guarded([&] { required(version) = required(plugin).version.c_str(); });
}

Status partition(Plugin* plugin, const char* chip, void* subgraph, void* selected) {
  return guarded([&] {
    const PythonObject& compiler = *required(plugin).compiler;
    compiler.call("partition", {number(chip), number(subgraph), number(selected)});
    if (!compiler.text("announced").empty()) ProgramHome::simulator_was_announced();
  });
}

Status compile(Plugin* plugin, const char* chip, void* model, CompiledResult** result) {
  return guarded([&] {
    auto compiled = std::make_unique<CompiledResult>();
    required(plugin).compiler->call("compile", {number(chip), number(model), number(compiled.get()),
                                                reinterpret_cast<uintptr_t>(&add_program)});
    required(result) = compiled.release();
  });
}

void destroy_result(CompiledResult* result) { std::unique_ptr<CompiledResult>(result).reset(); }

Status get_byte_code(CompiledResult* result, uint64_t index, const void** bytes, size_t* size) {
  return guarded([&] {
    const std::string& program = element(required(result).programs, index);
    required(bytes) = program.data();
    required(size) = program.size();
  });
}

Status count_programs(CompiledResult* result, uint64_t* count) {
  return guarded([&] { required(count) = required(result).programs.size(); });
}

// Every operator has a program of its own.
Status get_call(CompiledResult* result, uint64_t call, const void** name, size_t* size,
                uint64_t* program) {
  return guarded([&] {
    const std::string& found = element(required(result).names, call);
    required(name) = found.data();
    required(size) = found.size();
    required(program) = call;
  });
}

Status register_transformations(Plugin*, void** transformations, uint64_t* count) {
  return guarded([&] {
    if (transformations != nullptr) *transformations = nullptr;
    required(count) = 0;
  });
}

Status check_compatibility(ApiVersion, Plugin*, void*, void*, const char*) { return kOk; }

constexpr CompilerInterface kInterface = {{sizeof(CompilerInterface), kAbiMajor, 0, 0},
                                          get_version,
                                          get_manufacturer,
                                          create,
                                          destroy,
                                          get_hardware,
                                          count_models,
                                          get_model,
                                          partition,
                                          compile,
                                          destroy_result,
                                          get_byte_code,
                                          count_programs,
                                          get_call,
                                          count_programs,
                                          register_transformations,
                                          get_sdk_version,
                                          nullptr,
                                          check_compatibility};

}  // namespace
}  // namespace rk3588::litert

const rk3588::litert::CompilerInterface* rk3588_litert_compiler_interface() {
  return &rk3588::litert::kInterface;
}
