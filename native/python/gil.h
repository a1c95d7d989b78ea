// Python's lock, and calls of Python, in processes that may end meanwhile.
//
// While Python ends, it ends every other thread that asks for its lock, in the midst of whatever
// the thread called, by a forced unwind (up to 3.13). The frames that this passes would drop
// references without the lock and run `catch (...)`: both crash. So a thread is parked where the
// unwind first meets C++, for as long as the process lasts, as Python 3.14 does itself.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <type_traits>
#include <utility>

namespace rk3588 {

// Calls a function of Python's that may take the lock. Between the two no frame may need cleaning.
#ifdef _LIBCPP_VERSION
// With a C++ library of its own, as wheels have, the unwinder that ends the thread must not meet
// the frames above. A function without an unwinding table is where it stops: the C library then
// ends the thread and cleans nothing. Only a call that cannot throw leaves the function without a
// table.
template <typename Function>
__attribute__((noinline, nouwtable, disable_tail_calls)) auto or_park(Function&& function)
    -> decltype(function()) {
  using Result = decltype(function());
  using Called = std::remove_reference_t<Function>;
  Result (*call)(Called&) = [](Called& called) -> Result { return called(); };
  return reinterpret_cast<Result (*)(Called&) noexcept>(call)(function);
}
#else
template <typename Function>
auto or_park(Function&& function) -> decltype(function()) {
  try {
    return function();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}
#endif

// Whether this thread has stopped the collector, see GilAcquire.
inline thread_local bool stopped_collector = false;

// Holds the lock, also where the thread has it already. The collector, which any allocation may
// start and which runs finalisers that are written in Python, is stopped but for what `call` calls:
// those would give the lock to others, and the thread would be unwound from there.
class GilAcquire {
 public:
  GilAcquire()
      : state_(or_park(&PyGILState_Ensure)),
        stops_(PyGC_Disable() != 0),
        before_(std::exchange(stopped_collector, stops_ || stopped_collector)) {}
  // Without the lock only while the thread is unwound, by what took the lock where nobody looks.
  ~GilAcquire() {
    while (PyGILState_Check() == 0) pause();
    stopped_collector = before_;
    if (stops_) PyGC_Enable();
    PyGILState_Release(state_);
  }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  PyGILState_STATE state_;
  bool stops_;
  bool before_;
};

// Gives the lock to others until its end.
class GilRelease {
 public:
  GilRelease() : thread_(PyEval_SaveThread()) {}
  ~GilRelease() {
    or_park([this] { PyEval_RestoreThread(thread_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* thread_;
};

// Calls what is written in Python. Throws py::error_already_set.
template <typename... Arguments>
pybind11::object call(const pybind11::handle& function, Arguments&&... arguments) {
  const pybind11::tuple given = pybind11::make_tuple(std::forward<Arguments>(arguments)...);
  const bool collects = std::exchange(stopped_collector, false);
  if (collects) PyGC_Enable();
  PyObject* result = or_park([&] { return PyObject_CallObject(function.ptr(), given.ptr()); });
  if (collects) PyGC_Disable();
  stopped_collector = collects;
  if (result == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(result);
}

// Throws py::error_already_set.
inline pybind11::object import_module(const char* name) {
  PyObject* module = or_park([name] { return PyImport_ImportModule(name); });
  if (module == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(module);
}

}  // namespace rk3588
