"""Models on a board that may lack features: what was delegated, what it cost, whether it is right.

Every partition runs on the healthy simulator as well (verify=sim), which ends an invoke that
differs.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from delegate.errors import DelegateError
from delegate.host.delegated import DelegatedModel
from delegate.options import Options
from tests.kernel.model_results import differences, inputs_of
from tests.kernel.small_models import MODELS
from tests.kernel.standin_calls import arguments, calls, report, set_faults


def path_of(name: str, folder: Path) -> Path:
    """A small model's file, made below ``folder``, or the path that ``name`` is."""
    if name not in MODELS:
        return Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.tflite"
    path.write_bytes(MODELS[name]())
    return path


def main() -> None:
    given = arguments()
    options = {"device": given["device"], "verify": "sim", **given.get("options", {})}
    answer = {}
    for number, name in enumerate(given["models"]):
        path = path_of(name, Path(given["folder"]))
        set_faults()
        start = time.perf_counter()
        error = ""
        try:
            # As the reference, so that what differs from it is the delegate's.
            model = DelegatedModel.load(
                path,
                Options.from_mapping(options),
                reference_kernels=bool(given.get("reference")),
            )
        except DelegateError as problem:
            answer[name] = {"error": str(problem)}
            continue
        seconds = time.perf_counter() - start
        submits = calls().get("SUBMIT", 0)
        arrays = inputs_of(model.inputs)
        outputs = []
        try:
            # With nothing delegated it is the reference, which takes minutes.
            if model.delegation.delegated_nodes or not given.get("reference"):
                outputs = model.run(arrays)
        except DelegateError as problem:
            error = str(problem)
        set_faults()
        if not error and given.get("count_invoke"):
            model.run(arrays)
        compared = {}
        if outputs and given.get("reference"):
            compared = differences(outputs, given["reference"], number)
        answer[name] = {
            **compared,
            "error": error,
            "seconds": seconds,
            "submits": submits,
            "invoke": calls(),
            "delegated": model.delegation.delegated_nodes,
            "total": model.delegation.total_nodes,
            "rules": sorted({item.rule for item in model.delegation.rejections}),
            "reasons": sorted({item.detail for item in model.delegation.rejections}),
            "sums": [int(output.astype(np.int64).sum()) for output in outputs],
        }
    report(answer)


if __name__ == "__main__":
    main()
