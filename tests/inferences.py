"""Models that the runtime of this environment runs, with the delegate or without."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from delegate.host.library import library_path
from delegate.host.runtimes import find_runtime


def interpreter_of(model: bytes | Path, **options: str) -> Any:
    """With the delegate where ``options`` are given for it, over the reference kernels."""
    runtime = find_runtime()
    plugins = [runtime.load_delegate(library_path(), options)] if options else []
    return runtime.interpreter(model, plugins, reference_kernels=True)


def invoke(interpreter: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    """All outputs. Inputs of another shape than the model has resize it."""
    for details, values in zip(interpreter.get_input_details(), inputs, strict=True):
        if values.shape != tuple(details["shape"]):
            interpreter.resize_tensor_input(details["index"], values.shape)
            interpreter.allocate_tensors()
        interpreter.set_tensor(details["index"], values)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def outputs(model: bytes | Path, *inputs: np.ndarray, **options: str) -> list[np.ndarray]:
    return invoke(interpreter_of(model, **options), *inputs)


def assert_same(ours: Iterable[np.ndarray], theirs: Iterable[np.ndarray]) -> None:
    """Check that all results have the same shapes and values."""
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)


def drawn_int8(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
