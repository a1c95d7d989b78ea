"""LiteRT's CompiledModel: the folder of our libraries, and environments that use them.

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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from delegate.errors import DelegateError, OptionError
from delegate.host.library import NOT_BUILT, library_path
from delegate.options import Options

PACKAGE: Final = "ai-edge-litert"
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
    if _numbers(version) < _LEAST_VERSION:
        return f"{PACKAGE} is {version}; CompiledModel needs {needed} or later"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def litert_environment(options: Mapping[str, object]) -> Any:
    """Return an ``ai_edge_litert.environment.Environment`` whose compiled models use the NPU with
    these options. Raises OptionError, DelegateError.
    """
    problem = litert_problem()
    if problem:
        raise DelegateError(problem)
    from ai_edge_litert.environment import Environment

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
