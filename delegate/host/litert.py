"""LiteRT's CompiledModel: the folder of our libraries, and environments that use them.

A model in such an environment, to measure it.

LiteRT's interface for accelerators has no stable version before ai-edge-litert 2.3, and Python's
``Environment`` takes paths only. Options of the delegate therefore lie in a file of a folder that
the environment names (``native/litert/given_options.h``), beside links to the libraries.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from delegate.errors import DelegateError, ModelError, OptionError
from delegate.host.library import NOT_BUILT, library_path
from delegate.options import Options

PACKAGE: Final = "ai-edge-litert"
LITERT_RUNTIME: Final = "ai_edge_litert"
LIBRARIES: Final = ("libLiteRtCompilerPlugin_rk3588.so", "libLiteRtDispatch_rk3588.so")
OPTIONS_FILE: Final = "rk3588.options"
_LEAST_VERSION: Final = (2, 3)


def litert_folder() -> str:
    """Return the folder of the two libraries, which ``Environment.create`` takes for both of its
    paths. Raises DelegateError if they are not built.
    """
    folder = Path(library_path()).with_name("litert")
    if not all((folder / name).is_file() for name in LIBRARIES):
        raise DelegateError(NOT_BUILT)
    return str(folder)


def litert_problem() -> str:
    """Say why CompiledModel cannot use the NPU with what is installed; "": it can."""
    needed = ".".join(map(str, _LEAST_VERSION))
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return f"{PACKAGE} is not installed; CompiledModel needs {needed} or later"
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _LEAST_VERSION:
        return f"{PACKAGE} is {version}; CompiledModel needs {needed} or later"
    return ""


def require_litert() -> None:
    """Raise DelegateError if CompiledModel cannot use the NPU with what is installed."""
    problem = litert_problem()
    if problem:
        raise DelegateError(problem)


def litert_environment(options: Mapping[str, object]) -> Any:
    """Return an ``ai_edge_litert.environment.Environment`` whose compiled models use the NPU with
    these options. Raises OptionError, DelegateError.
    """
    require_litert()
    from ai_edge_litert.environment import Environment  # LiteRT is no part of this package

    texts = Options.from_mapping(options).to_strings()
    lines = [f"{key}={texts[key]}\n" for key in options]
    if any(line.count("\n") != 1 for line in lines):
        raise OptionError("options for LiteRT cannot have line breaks")
    libraries = Path(litert_folder())
    folder = Path(tempfile.mkdtemp(prefix="rk3588-litert-"))
    for name in LIBRARIES:
        (folder / name).symlink_to(libraries / name)
    (folder / OPTIONS_FILE).write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
    environment = Environment.create(
        compiler_plugin_path=str(folder), dispatch_library_path=str(folder)
    )
    weakref.finalize(environment, shutil.rmtree, folder, ignore_errors=True)
    return environment


@dataclass(slots=True)
class LiteRtModel:
    """A compiled model with buffers for its first signature."""

    compiled: Any
    inputs: list[Any]
    outputs: list[Any]
    names: list[str]

    @classmethod
    def load(cls, path: Path, options: Mapping[str, object]) -> LiteRtModel:
        """Load a model for the NPU and the CPU. Raises ModelError if LiteRT refuses it, and what
        ``litert_environment`` raises.
        """
        environment = litert_environment(options)
        from ai_edge_litert.compiled_model import CompiledModel
        from ai_edge_litert.hardware_accelerator import HardwareAccelerator

        either = HardwareAccelerator.NPU | HardwareAccelerator.CPU
        try:
            compiled = CompiledModel.from_file(str(path), either, environment)
            signature = compiled.get_signature_by_index(0)
            details = compiled.get_input_tensor_details(signature["key"])
            return cls(
                compiled=compiled,
                inputs=compiled.create_input_buffers(0),
                outputs=compiled.create_output_buffers(0),
                names=[details[name]["name"] for name in signature["inputs"]],
            )
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"LiteRT refuses {path}: {' '.join(str(error).split())}") from error

    def give(
        self, details: Sequence[Mapping[str, Any]], arrays: Sequence[npt.NDArray[Any]]
    ) -> None:
        """Write the inputs. ``details``: an interpreter's, by which ``arrays`` are named."""
        by_name = {item["name"]: array for item, array in zip(details, arrays, strict=True)}
        for name, buffer in zip(self.names, self.inputs, strict=True):
            buffer.write(by_name[name])

    def run(self) -> None:
        """Run the model once. Raises DelegateError."""
        try:
            self.compiled.run_by_index(0, self.inputs, self.outputs)
        except RuntimeError as error:
            raise DelegateError(" ".join(str(error).split())) from error
