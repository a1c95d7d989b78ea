"""Models on a board that may be worse than it should: what was delegated, what it cost, whether the
results that a user gets are right.

Right is what the healthy simulator, to which all of the model is given, computes. Two inferences:
the delegate itself compares the first one, and with ``verify=sim`` the second one as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.errors import DelegateError
from delegate.host.delegated import DelegatedModel
from delegate.options import Options
from tests.kernel.model_results import differences, inputs_of
from tests.kernel.small_models import MODELS
from tests.kernel.standin_calls import calls, set_faults

Arrays = Sequence[npt.NDArray[Any]]


def path_of(name: str, folder: Path) -> Path:
    """A small model's file, made below ``folder``, or the path that ``name`` is."""
    if name not in MODELS:
        return Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.tflite"
    path.write_bytes(MODELS[name]())
    return path


def worst(found: Arrays, wanted: Arrays) -> float:
    """The largest difference between results."""
    pairs = zip(found, wanted, strict=True)
    return max(float(np.abs(a.astype(np.float64) - b).max(initial=0.0)) for a, b in pairs)


def work(
    models: list[str], options: dict[str, str], folder: str, device: str, count_invoke: bool,
    break_in_use: str, reference: str,
) -> dict[str, Any]:  # fmt: skip
    options = {"device": device, "verify": "sim", **options}
    answer = {}
    for number, name in enumerate(models):
        path = path_of(name, Path(folder))
        set_faults()
        start = time.perf_counter()
        error = ""
        try:
            # As the reference, so that what differs from it is the delegate's.
            model = DelegatedModel.load(
                path, Options.from_mapping(options), reference_kernels=bool(reference)
            )
        except DelegateError as problem:
            answer[name] = {"error": str(problem)}
            continue
        seconds = time.perf_counter() - start
        submits = calls().get("SUBMIT", 0)
        arrays = inputs_of(model.inputs)
        if break_in_use:
            os.environ["RK3588_SIM_BREAK"] = break_in_use
        outputs: list[npt.NDArray[Any]] = []
        start = time.perf_counter()
        try:
            # With nothing delegated it is the reference, which takes minutes.
            if model.delegation.delegated_nodes or not reference:
                outputs = [output.copy() for output in model.run(arrays)]
        except DelegateError as problem:
            error = str(problem)
        invoke_seconds = time.perf_counter() - start
        compared: dict[str, float] = {}
        if not error and reference and outputs:
            compared = differences(outputs, reference, number)
        elif not error and not reference:
            compared = {"worst": against_simulator(path, options, model, arrays, outputs)}
        set_faults()
        if not error and count_invoke:
            model.run(arrays)
        answer[name] = {
            **compared,
            "error": error,
            "seconds": seconds,
            "invoke_seconds": invoke_seconds,
            "submits": submits,
            "invoke": calls(),
            "delegated": model.delegation.delegated_nodes,
            "total": model.delegation.total_nodes,
            "rules": sorted({item.rule for item in model.delegation.rejections}),
            "reasons": sorted({item.detail for item in model.delegation.rejections}),
            "sums": [int(output.astype(np.int64).sum()) for output in outputs],
        }
    return answer


def against_simulator(
    path: Path, options: dict[str, str], model: DelegatedModel, arrays: Arrays, outputs: Arrays
) -> float:
    """Return how far two inferences are from the simulator's."""
    kept = {key: value for key, value in options.items() if key in ("numerics", "float")}
    healthy = DelegatedModel.load(path, Options.from_mapping({**kept, "device": "simulator"}))
    first = worst(outputs, healthy.run(arrays))
    others = [np.flip(array).copy() for array in arrays]
    return max(first, worst(model.run(others), healthy.run(others)))
