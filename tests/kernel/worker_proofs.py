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
    for name in given["models"]:
        path = path_of(name, Path(given["folder"]))
        set_faults()
        start = time.perf_counter()
        error = ""
        try:
            model = DelegatedModel.load(path, Options.from_mapping(options))
        except DelegateError as problem:
            answer[name] = {"error": str(problem)}
            continue
        seconds = time.perf_counter() - start
        submits = calls().get("SUBMIT", 0)
        rng = np.random.default_rng(0)
        arrays = []
        for details in model.inputs:
            if np.issubdtype(details["dtype"], np.integer):
                ends = np.iinfo(details["dtype"])
                arrays.append(
                    rng.integers(ends.min, ends.max + 1, details["shape"], details["dtype"])
                )
            else:
                arrays.append(rng.random(details["shape"], dtype=np.float32))
        outputs = []
        try:
            outputs = model.run(arrays)
        except DelegateError as problem:
            error = str(problem)
        set_faults()
        if not error and given.get("count_invoke"):
            model.run(arrays)
        answer[name] = {
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
