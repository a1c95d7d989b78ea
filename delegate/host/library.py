"""Find the delegate's shared object, and say what is missing where it or a package is not there.

The devices of this machine, for people and programs that choose one.

Gives tensors of an interpreter memory that others share (docs/shared_buffers.md), for Python.

The runtime's function for it, ``Interpreter::SetBufferHandle`` of C++, has no name in Python:
tflite-runtime exports it by its C++ name, ai-edge-litert and tensorflow do not.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from delegate.errors import DelegateError, DeviceError, UsageError

NATIVE_MODULE = "delegate._native"
DEPENDENCIES = ("numpy", "flatbuffers")
"""The packages that every command needs (pyproject.toml); their modules have the same names."""
NOT_BUILT = (
    "the native library of rk3588-delegate is not built: install the package with pip, or "
    "run make native in its source tree"
)
_LIBRARY = "librk3588_delegate.so"


def library_path() -> str:
    """The absolute path of the shared object. Raises DelegateError if it is not built."""
    # In an editable installation the native part lies elsewhere than the package's files.
    spec = find_spec(NATIVE_MODULE)
    found = [Path(spec.origin)] if spec is not None and spec.origin else []
    for place in [*found, Path(__file__).parent]:
        library = place.resolve().with_name(_LIBRARY)
        if library.is_file():
            return str(library)
    raise DelegateError(NOT_BUILT)


def describe_missing(error: ModuleNotFoundError) -> str | None:
    """Return the remedy for a part that is not installed; None for a fault of this package."""
    name = (error.name or "").partition(".")[0]
    if error.name == NATIVE_MODULE:
        return NOT_BUILT
    if name not in DEPENDENCIES:
        return None
    return (
        f"{sys.executable} has no {name}: in a source tree run make native and use "
        f".venv/bin/rk3588-delegate, elsewhere {sys.executable} -m pip install {name}"
    )


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """``name`` is what the option ``device`` takes. ``detail`` says what a device is good for, or
    why it cannot be opened."""

    name: str
    is_npu: bool
    is_usable: bool
    detail: str


def find_devices(root: str = "/") -> tuple[DeviceInfo, ...]:
    """The NPUs' device nodes, then the simulator and the null device.

    ``device=auto`` takes the first usable one, unless there are only NPUs that cannot be used.
    ``root``: the directory that holds dev/ and sys/. Opens the NPUs' nodes.
    """
    from delegate._native import find_npu_nodes, open_device_name

    found = []
    for node, _, _, state, problem in find_npu_nodes(root):
        if state == "foreign":
            continue
        if state != "usable":
            found.append(DeviceInfo(node, True, False, problem))
            continue
        try:
            found.append(DeviceInfo(node, True, True, open_device_name(node)))
        except DeviceError as error:
            found.append(DeviceInfo(node, True, False, str(error)))
    found.append(
        DeviceInfo("simulator", False, True, "executes register programs on the CPU, slowly")
    )
    found.append(DeviceInfo("null", False, True, "computes nothing: measures the host's share"))
    return tuple(found)


_WRAPPER = "._pywrap_tensorflow_interpreter_wrapper"
_SET_BUFFER_HANDLE = "_ZN6tflite4impl11Interpreter15SetBufferHandleEiiP14TfLiteDelegate"
"""``TfLiteStatus tflite::impl::Interpreter::SetBufferHandle(int, int, TfLiteDelegate*)``."""
_NO_HANDLE = -1


def set_buffer_handle(interpreter: Any, loaded: Any, tensor: int, descriptor: int | None) -> None:
    """As ``delegate.share_tensor``."""
    package = type(interpreter).__module__.partition(".")[0]
    wrapper = sys.modules.get(package + _WRAPPER)
    library = ctypes.CDLL(getattr(wrapper, "__file__", None))
    if wrapper is None or not hasattr(library, _SET_BUFFER_HANDLE):
        raise DelegateError(
            f"{package} exports no SetBufferHandle: use tflite-runtime 2.14, or a C++ host"
        )
    details = interpreter.get_input_details() + interpreter.get_output_details()
    if tensor not in [detail["index"] for detail in details]:
        raise UsageError(f"tensor {tensor} is no input or output of the model")
    function = library[_SET_BUFFER_HANDLE]
    function.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    handle = _NO_HANDLE if descriptor is None else descriptor
    pointer = loaded._get_native_delegate_pointer()
    if function(interpreter._native_handle(), tensor, handle, pointer) != 0:
        raise DelegateError(f"the runtime gives tensor {tensor} no buffer of this delegate")
