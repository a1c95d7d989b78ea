"""Inputs and results of whole models, for processes with the stand-in kernel and without."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def inputs_of(details: Sequence[dict[str, Any]], seed: int = 0) -> list[npt.NDArray[Any]]:
    """The same random inputs for whoever runs a model."""
    rng = np.random.default_rng(seed)
    arrays: list[npt.NDArray[Any]] = []
    for item in details:
        shape, dtype = item["shape"], item["dtype"]
        if np.issubdtype(dtype, np.integer):
            ends = np.iinfo(dtype)
            arrays.append(rng.integers(ends.min, ends.max + 1, shape, dtype))
        else:
            arrays.append(rng.random(shape, dtype=np.float32))
    return arrays


def run_on(interpreter: Any, seed: int) -> None:
    """Run a model once on the inputs of ``seed``."""
    details = interpreter.get_input_details()
    for item, values in zip(details, inputs_of(details, seed), strict=True):
        interpreter.set_tensor(item["index"], values)
    interpreter.invoke()


def outputs_of(interpreter: Any) -> list[npt.NDArray[Any]]:
    return [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]


def differences(outputs: Sequence[npt.NDArray[Any]], file: str, number: int) -> dict[str, float]:
    """The share of elements that differ from the reference kernels', and by how much at most."""
    differing, count, worst = 0, 0, 0.0
    with np.load(file) as wanted:
        for index, output in enumerate(outputs):
            off = np.abs(output.astype(np.float64) - wanted[f"{number} {index}"])
            differing, count = differing + int(np.count_nonzero(off)), count + off.size
            worst = max(worst, float(off.max(initial=0.0)))
    return {"differing": differing / max(count, 1), "worst": worst}
