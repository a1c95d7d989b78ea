"""The TensorFlow Lite runtimes a user may have, behind one small interface.

Looks for tflite_runtime, ai_edge_litert and tensorflow, in that order, unless one of them is
imported already. Gives interpreters with or without delegates, with default or reference kernels.
Turns what the runtimes raise into the project's errors.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from delegate.errors import DelegateError, ModelError
from delegate.model.files import open_plain

_MODULES = {
    "tflite_runtime": "tflite_runtime.interpreter",
    "ai_edge_litert": "ai_edge_litert.interpreter",
    "tensorflow": "tensorflow.lite.python.interpreter",
}


class Interpreter(Protocol):
    """The part of TensorFlow Lite's Interpreter that this project uses."""

    def allocate_tensors(self) -> None: ...
    def get_input_details(self) -> list[dict[str, Any]]: ...
    def get_output_details(self) -> list[dict[str, Any]]: ...
    def get_tensor(self, tensor_index: int) -> npt.NDArray[Any]: ...
    def set_tensor(self, tensor_index: int, value: npt.NDArray[Any]) -> None: ...
    def invoke(self) -> None: ...


def one_line(error: BaseException) -> str:
    """An exception's text on one line; its type if it has no text."""
    return " ".join(str(error).split()) or type(error).__name__


@dataclass(frozen=True, slots=True)
class Runtime:
    """One installed runtime."""

    name: str
    module: ModuleType

    @property
    def version(self) -> str:
        """The installed version, "unknown" if the package does not tell."""
        root = sys.modules.get(self.name)
        return str(getattr(root, "__version__", "unknown"))

    def load_delegate(self, library: str, options: Mapping[str, str]) -> Any:
        """Loads ``library`` as an external delegate. Raises DelegateError with the library's own
        words.
        """
        try:
            return self.module.load_delegate(library, dict(options))
        except (ValueError, OSError, AttributeError) as error:
            raise DelegateError(one_line(error)) from error

    def interpreter(
        self,
        model: Path | bytes,
        delegates: Sequence[Any] = (),
        *,
        reference_kernels: bool = False,
        threads: int | None = None,
    ) -> Interpreter:
        """An interpreter with allocated tensors, for a file or its content.

        ``reference_kernels`` selects OpResolverType.BUILTIN_REF: the kernels that define the
        numeric contract, with no default delegate. Raises ModelError if the runtime refuses the
        model.
        """
        arguments: dict[str, Any] = {}
        if isinstance(model, bytes):
            name = "the model"
            arguments["model_content"] = model
        else:
            name = str(model)
            # The runtime would wait for a pipe, and read a device.
            with open_plain(model, error=ModelError) as file:
                if _is_utf8(name):
                    arguments["model_path"] = name
                else:  # no runtime takes such a name
                    arguments["model_content"] = file.read()
        if delegates:
            arguments["experimental_delegates"] = list(delegates)
        if reference_kernels:
            arguments["experimental_op_resolver_type"] = self.module.OpResolverType.BUILTIN_REF
        if threads is not None:
            arguments["num_threads"] = threads
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # tensorflow announces the move to ai_edge_litert
                interpreter: Interpreter = self.module.Interpreter(**arguments)
                interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise ModelError(self._why_it_refuses(name, one_line(error))) from error
        return interpreter

    def _why_it_refuses(self, model: str, words: str) -> str:
        """Return the runtime's ``words`` about a model, or what they mean and what helps."""
        unknown = re.search(r"builtin opcode '(\w+)' version '(\d+)'", words)
        if unknown is None:
            return f"{self.name} refuses {model}: {words}"
        return (
            f"{model} needs {unknown[1]} of version {unknown[2]}, which {self.name} "
            f"{self.version} does not have; a newer runtime may: pip install ai-edge-litert, in an "
            "environment without tflite-runtime"
        )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def installed_runtimes() -> list[str]:
    """Names of the runtimes that can be imported, in order of preference; imports none of them."""
    found = []
    for name in _MODULES:
        try:
            if importlib.util.find_spec(name) is not None:
                found.append(name)
        except (ImportError, ValueError):
            continue
    return found


_ALONE = """
import pathlib, sys
from delegate.host.runtimes import find_runtime
find_runtime().interpreter(pathlib.Path(sys.argv[1]), reference_kernels=True).invoke()
"""
"""A program that runs a model with reference kernels, without the delegate."""


def require_reference_kernels(model: Path) -> None:
    """Run ``model`` once with the runtime's reference kernels, in a process of its own.

    Some of them check numbers that the fast kernels bear, and end the process. Raises DelegateError
    where they do; what the runtime refuses in words it says again where it is loaded.
    """
    from delegate.host.interruption import starting_processes

    words = [sys.executable, "-c", _ALONE, str(model)]
    with starting_processes():
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode < 0:
        runtime = find_runtime()
        raise DelegateError(
            f"{model}: the reference kernels of {runtime.name} {runtime.version} end their process "
            f"({signal.Signals(-process.returncode).name}) with this model, without this delegate: "
            "nothing is known of the NPU; compare with --reference builtin and without --per-op, "
            "or under another runtime"
        )


def loaded_runtime() -> Runtime | None:
    """The runtime that the process already uses; the first of them, if there are several."""
    for name, module_name in _MODULES.items():
        if module_name in sys.modules:
            # Another thread may be importing it just now: this waits until it is whole.
            with suppress(Exception):
                return Runtime(name, importlib.import_module(module_name))
    return None


def _check_numpy(runtime: Runtime) -> None:
    """Raises DelegateError for a runtime that would break down at its first model, with NumPy's
    traceback: tflite_runtime up to 2.17 is made for NumPy 1.
    """
    made_for = re.match(r"2\.(\d+)\.", runtime.version)
    is_old = made_for is not None and int(made_for.group(1)) < 18
    if runtime.name == "tflite_runtime" and is_old and not np.__version__.startswith("1."):
        raise DelegateError(
            f"{runtime.version} needs NumPy 1, and {np.__version__} is installed: "
            "pip install 'numpy<2' (or ai-edge-litert)"
        )


def find_runtime() -> Runtime:
    """The runtime that the process already uses, otherwise the first that can be imported.

    Raises DelegateError naming what to install, or why an installed one does not load.
    """
    loaded = loaded_runtime()
    if loaded is not None:
        return loaded
    failures = []
    for name in installed_runtimes():
        try:
            runtime = Runtime(name, importlib.import_module(_MODULES[name]))
            _check_numpy(runtime)
            return runtime
        except Exception as error:  # a broken runtime can raise anything while it is imported
            failures.append(f"{name}: {one_line(error)}")
    if failures:
        raise DelegateError(f"no TensorFlow Lite runtime loads: {'; '.join(failures)}")
    raise DelegateError(
        "no TensorFlow Lite runtime is installed: pip install rk3588-delegate[runtime] "
        "(or tflite-runtime, ai-edge-litert, tensorflow)"
    )


def invoke(interpreter: Interpreter) -> None:
    """Runs the model once. Raises DelegateError with the runtime's text on failure."""
    try:
        interpreter.invoke()
    except (ValueError, RuntimeError) as error:
        raise DelegateError(f"the inference failed: {one_line(error)}") from error


def dequantize(array: npt.NDArray[Any], details: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Real values of a per-tensor quantised array; floats pass through."""
    scale, zero_point = details["quantization"]
    if not np.issubdtype(array.dtype, np.integer) or not scale:
        return array.astype(np.float64)
    return float(scale) * (array.astype(np.float64) - float(zero_point))
