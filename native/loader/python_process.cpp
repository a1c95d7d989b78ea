#include "python_process.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "host/library_path.h"

namespace rk3588 {
namespace {

using Object = void*;  // PyObject*

template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// The functions of the stable ABI that are used here, null where this process lacks one.
struct Python {
  bool is_complete = true;
  template <typename Function>
  Function find(const char* name) {
    const auto function = rk3588::find<Function>(name);
    is_complete = is_complete && function != nullptr;
    return function;
  }

  int (*ensure)() = find<int (*)()>("PyGILState_Ensure");
  void (*release)(int) = find<void (*)(int)>("PyGILState_Release");
  Object (*import)(const char*) = find<Object (*)(const char*)>("PyImport_ImportModule");
  Object (*attribute)(Object, const char*) =
      find<Object (*)(Object, const char*)>("PyObject_GetAttrString");
  Object (*text)(Object) = find<Object (*)(Object)>("PyObject_Str");
  const char* (*utf8)(Object,
                      long*) = find<const char* (*)(Object, long*)>("PyUnicode_AsUTF8AndSize");
  Object (*new_text)(const char*) = find<Object (*)(const char*)>("PyUnicode_DecodeFSDefault");
  Object (*sys_object)(const char*) = find<Object (*)(const char*)>("PySys_GetObject");
  int (*append)(Object, Object) = find<int (*)(Object, Object)>("PyList_Append");
  void (*forget)(Object) = find<void (*)(Object)>("Py_DecRef");
  void (*fetch)(Object*, Object*,
                Object*) = find<void (*)(Object*, Object*, Object*)>("PyErr_Fetch");
  void (*clear)() = find<void (*)()>("PyErr_Clear");

  std::string string_of(Object object) const {
    if (object == nullptr) return {};
    const char* bytes = utf8(object, nullptr);
    std::string result = bytes == nullptr ? "" : bytes;
    clear();
    forget(object);
    return result;
  }

  // The text of the exception that is set, which is then cleared.
  std::string take_error() const {
    Object type = nullptr;
    Object value = nullptr;
    Object trace = nullptr;
    fetch(&type, &value, &trace);
    std::string result = value == nullptr ? "unknown error" : string_of(text(value));
    if (result.empty()) result = string_of(text(type));  // "<class 'MemoryError'>"
    clear();
    for (Object object : {type, value, trace}) {
      if (object != nullptr) forget(object);
    }
    return result;
  }
};

// Path of the module's file; "" with `problem` set if it cannot be imported.
std::string module_path(const Python& python, std::string* problem) {
  Object module = python.import("delegate._native");
  if (module == nullptr) {
    *problem = python.take_error();
    Object path = python.sys_object("path");  // borrowed
    Object parent = python.new_text(package_parent().c_str());
    if (path != nullptr && parent != nullptr) python.append(path, parent);
    if (parent != nullptr) python.forget(parent);
    python.clear();
    module = python.import("delegate._native");
  }
  if (module == nullptr) {
    *problem = python.take_error();
    return {};
  }
  const std::string path = python.string_of(python.attribute(module, "__file__"));
  python.clear();
  python.forget(module);
  if (path.empty()) *problem = "the module delegate._native has no file";
  return path;
}

}  // namespace

bool tells_of_memory(const std::string& problem) {
  for (const char* words : {"MemoryError", "failed to map segment", "annot allocate memory"}) {
    if (problem.find(words) != std::string::npos) return true;
  }
  return false;
}

bool is_python_running() {
  const auto is_initialized = find<int (*)()>("Py_IsInitialized");
  return is_initialized != nullptr && is_initialized() != 0;
}

const char* chosen_libpython() {
  const char* path = secure_getenv("RK3588_LIBPYTHON");
  return path == nullptr || *path == 0 ? nullptr : path;
}

std::string start_python(const char* libpython) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (is_python_running()) return {};
  // A name without a folder is one that the loader looks for.
  if (std::strchr(libpython, '/') != nullptr) {
    struct stat status{};
    if (stat(libpython, &status) == 0 && !S_ISREG(status.st_mode)) {
      return std::string(libpython) + " is no plain file";  // which the loader would wait for
    }
  }
  // Extension modules look for Python's symbols among the global ones.
  void* library = dlopen(libpython, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return dlerror();
  const auto initialize = reinterpret_cast<void (*)(int)>(dlsym(library, "Py_InitializeEx"));
  const auto save_thread = reinterpret_cast<void* (*)()>(dlsym(library, "PyEval_SaveThread"));
  if (initialize == nullptr || save_thread == nullptr) {
    dlclose(library);
    return std::string(libpython) + " is no libpython";
  }
  initialize(0);
  save_thread();
  return {};
}

PythonPlugin find_python_plugin() {
  PythonPlugin plugin;
  const Python python;
  if (!python.is_complete) {
    plugin.problem = "this Python lacks functions of its stable ABI";
    return plugin;
  }
  const int state = python.ensure();
  const std::string path = module_path(python, &plugin.problem);
  python.release(state);
  if (path.empty()) return plugin;
  // Loaded already by the import; never unloaded, as Python does with modules.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    plugin.problem = dlerror();
    return plugin;
  }
  plugin.create = reinterpret_cast<CreateFunction>(dlsym(library, "tflite_plugin_create_delegate"));
  plugin.destroy =
      reinterpret_cast<DestroyFunction>(dlsym(library, "tflite_plugin_destroy_delegate"));
  if (plugin.create == nullptr || plugin.destroy == nullptr) {
    plugin.problem = path + " is not the module of this delegate";
    plugin.create = nullptr;
  }
  return plugin;
}

}  // namespace rk3588
