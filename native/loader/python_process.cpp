#include "python_process.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <stdexcept>

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
  Object (*call)(Object, const char*, const char*, ...) =
      find<Object (*)(Object, const char*, const char*, ...)>("PyObject_CallMethod");

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

// Imports a module, whose package lies in `folder` if it is not on sys.path; nullptr with `problem`
// set if it cannot be imported.
Object import_from(const Python& python, const char* name, const std::string& folder,
                   std::string* problem) {
  Object module = python.import(name);
  if (module == nullptr) {
    *problem = python.take_error();
    Object path = python.sys_object("path");  // borrowed
    Object parent = python.new_text(folder.c_str());
    if (path != nullptr && parent != nullptr) python.append(path, parent);
    if (parent != nullptr) python.forget(parent);
    python.clear();
    module = python.import(name);
  }
  if (module == nullptr) *problem = python.take_error();
  return module;
}

// Path of the module's file; "" with `problem` set if it cannot be imported.
std::string module_path(const Python& python, std::string* problem) {
  Object module = import_from(python, "delegate._native", package_parent(), problem);
  if (module == nullptr) return {};
  const std::string path = python.string_of(python.attribute(module, "__file__"));
  python.clear();
  python.forget(module);
  if (path.empty()) *problem = "the module delegate._native has no file";
  return path;
}

// The GIL, for as long as this object lives.
class Held {
 public:
  explicit Held(const Python& python) : python_(python), state_(python.ensure()) {}
  ~Held() { python_.release(state_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  const Python& python_;
  int state_;
};

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

PythonObject::PythonObject(const char* module, const std::string& folder, const char* name,
                           uintptr_t number, const std::string& text) {
  const Python python;
  if (!python.is_complete) {
    throw std::runtime_error("this Python lacks functions of its stable ABI");
  }
  const Held held(python);
  std::string problem;
  Object imported = import_from(python, module, folder, &problem);
  if (imported == nullptr) {
    throw std::runtime_error("the compiler cannot be imported (" + problem + ")");
  }
  object_ =
      python.call(imported, name, "Ks", static_cast<unsigned long long>(number), text.c_str());
  if (object_ == nullptr) problem = python.take_error();
  python.forget(imported);
  if (object_ == nullptr) throw std::runtime_error(problem);
}

PythonObject::~PythonObject() {
  if (!is_python_running()) return;
  const Python python;
  const Held held(python);
  python.forget(object_);
}

void PythonObject::call(const char* method, std::initializer_list<uintptr_t> numbers) const {
  unsigned long long all[4] = {};
  const size_t count = std::min(numbers.size(), std::size(all));
  std::copy_n(numbers.begin(), count, all);
  const Python python;
  const Held held(python);
  // As many as the format says are read.
  Object result =
      python.call(object_, method, std::string(count, 'K').c_str(), all[0], all[1], all[2], all[3]);
  if (result == nullptr) throw std::runtime_error(python.take_error());
  python.forget(result);
}

std::string PythonObject::text(const char* attribute) const {
  const Python python;
  const Held held(python);
  Object found = python.attribute(object_, attribute);
  if (found == nullptr) throw std::runtime_error(python.take_error());
  return python.string_of(found);
}

}  // namespace rk3588
