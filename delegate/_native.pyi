"""The native part: executables on a device, the simulator, and the plugin that runtimes load."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

class Executable:
    """A serialised Program made ready on a device.

    ``run`` takes the partition's inputs in the order of the program's bindings (dense arrays of the
    bindings' shapes and types) and returns its outputs.
    """

    def __init__(self, program: bytes, device: str = "auto", timeout_ms: int = 0) -> None: ...
    def run(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]: ...

def submit_count() -> int:
    """Submits to devices by this process so far."""
