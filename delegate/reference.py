"""TensorFlow Lite's own answer: every tensor of a model, by reference or default kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from delegate.errors import ModelError
from delegate.runtimes import Interpreter, find_runtime, invoke


@dataclass(slots=True)
class ReferenceModel:
    """An interpreter without the delegate. ``inputs``/``outputs`` are the runtime's details."""

    interpreter: Interpreter
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]

    @classmethod
    def load(cls, path: Path, *, reference_kernels: bool, all_tensors: bool) -> ReferenceModel:
        """``reference_kernels``: BUILTIN_REF, which defines the numeric contract but is slow; else
        the default kernels. ``all_tensors`` keeps intermediate tensors. Raises ModelError."""
        interpreter = find_runtime().interpreter(
            path, reference_kernels=reference_kernels, preserve_all_tensors=all_tensors
        )
        return cls(interpreter, interpreter.get_input_details(), interpreter.get_output_details())

    def run(self, sample: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """One inference; the model's outputs. Raises DelegateError if the runtime fails."""
        for details, array in zip(self.inputs, sample, strict=True):
            self.interpreter.set_tensor(details["index"], array)
        invoke(self.interpreter)
        return [self.interpreter.get_tensor(details["index"]) for details in self.outputs]

    def tensor(self, index: int) -> npt.NDArray[Any]:
        """A copy of tensor ``index`` after ``run``. Raises ModelError if it was not kept."""
        try:
            return self.interpreter.get_tensor(index)
        except ValueError as error:
            raise ModelError(f"tensor {index} cannot be read: {error}") from error
