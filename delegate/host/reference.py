"""TensorFlow Lite's own answer: every tensor of a model, by reference or default kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from delegate.errors import ModelError
from delegate.host.runtimes import Interpreter, find_runtime, invoke
from delegate.model.exposed_tensors import expose_tensors
from delegate.model.tflite_reader import read_graph


@dataclass(slots=True)
class ReferenceModel:
    """An interpreter without the delegate. ``inputs``/``outputs`` are the runtime's details."""

    interpreter: Interpreter
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        reference_kernels: bool,
        tensors: Iterable[int] = (),
        threads: int | None = None,
    ) -> ReferenceModel:
        """``reference_kernels``: BUILTIN_REF, which defines the numeric contract but is slow; else
        the default kernels. ``tensors``: inner tensors that can be read after ``run``.

        Raises ModelError if the model cannot be read or the runtime refuses it.
        """
        inner = tuple(tensors)
        interpreter = find_runtime().interpreter(
            expose_tensors(path, inner) if inner else path,
            reference_kernels=reference_kernels,
            threads=threads,
        )
        count = len(read_graph(path).outputs)
        return cls(
            interpreter, interpreter.get_input_details(), interpreter.get_output_details()[:count]
        )

    def run(self, sample: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """One inference; the model's outputs. Raises DelegateError if the runtime fails."""
        for details, array in zip(self.inputs, sample, strict=True):
            self.interpreter.set_tensor(details["index"], array)
        invoke(self.interpreter)
        return [self.interpreter.get_tensor(details["index"]) for details in self.outputs]

    def tensor(self, index: int) -> npt.NDArray[Any]:
        """A copy of tensor ``index`` after ``run``. Raises ModelError if it was not asked for."""
        try:
            return self.interpreter.get_tensor(index)
        except ValueError as error:
            raise ModelError(f"tensor {index} cannot be read: {error}") from error
