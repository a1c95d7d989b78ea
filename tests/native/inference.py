"""An inference, also beside a thread with the GIL, and the test model's convolutions."""

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

CONV_NODES = (0, 2)

T = TypeVar("T")


def invoke(interpreter, value: int = 3) -> np.ndarray:
    detail = interpreter.get_input_details()[0]
    interpreter.set_tensor(detail["index"], np.full(detail["shape"], value, detail["dtype"]))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def invoke_on_cpu(runtime, model) -> np.ndarray:
    interpreter = runtime.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    return invoke(interpreter)


def seen_beside_invoke(interpreter: Any, microseconds: int, look: Callable[[], T]) -> T:
    """Return what ``look`` finds so long into another thread's invoke, holding the GIL."""
    holder = ctypes.PyDLL(None)  # keeps the GIL during the call
    started = threading.Event()

    def work() -> None:
        started.set()
        interpreter.invoke()

    worker = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(30.0)  # the worker gives the GIL away only inside invoke
    try:
        worker.start()
        started.wait()
        holder.usleep(microseconds)
        found = look()
    finally:
        sys.setswitchinterval(interval)
    worker.join()
    return found
