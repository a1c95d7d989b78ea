"""Gives tensors of an interpreter memory that others share (docs/shared_buffers.md), for Python.

The runtime's function for it, ``Interpreter::SetBufferHandle`` of C++, has no name in Python:
tflite-runtime exports it by its C++ name, ai-edge-litert and tensorflow do not.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from delegate.errors import DelegateError, UsageError

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
