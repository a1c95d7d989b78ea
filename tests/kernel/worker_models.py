"""Models through the runtime on a device and on the simulator: same bytes, which requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import delegate
from delegate.host.runtimes import Runtime, find_runtime
from tests.kernel.model_results import inputs_of, outputs_of
from tests.kernel.small_models import MODELS
from tests.kernel.standin_calls import allocations, calls, live, set_faults


def allocations_of_the_runtime(runtime: Runtime) -> int:
    """Return what an invoke takes by itself: of one addition on the CPU, without a delegate."""
    interpreter = runtime.interpreter(MODELS["add"]())
    for _ in range(2):
        interpreter.invoke()
    with allocations() as counted:
        interpreter.invoke()
    return counted[0]


def work(
    device: str, models: list[str], options: dict[str, str] | None = None,
    simulator: dict[str, str] | None = None, invokes: int = 3,
) -> dict[str, Any]:  # fmt: skip
    runtime = find_runtime()
    own = allocations_of_the_runtime(runtime)
    answer = {}
    for name in models:
        content = MODELS[name]() if name in MODELS else Path(name).read_bytes()
        runs = {}
        requests: list[dict[str, int]] = []
        memory: list[int] = []
        for target in (device, "simulator"):
            chosen = {"device": target, "timeout_ms": "120000", **(options or {})}
            if target == "simulator":
                chosen |= simulator or {}
            plugin = runtime.load_delegate(delegate.library_path(), chosen)
            interpreter = runtime.interpreter(content, [plugin])
            outputs = []
            for seed in range(invokes):
                details = interpreter.get_input_details()
                for item, values in zip(details, inputs_of(details, seed), strict=True):
                    interpreter.set_tensor(item["index"], values)
                set_faults()
                with allocations() as counted:
                    interpreter.invoke()
                memory.append(counted[0] - own)
                requests.append(calls())
                outputs.append(outputs_of(interpreter))
            runs[target] = outputs
            del interpreter, plugin
        equal = all(
            np.array_equal(ours, theirs, equal_nan=True)
            for one, other in zip(*runs.values(), strict=True)
            for ours, theirs in zip(one, other, strict=True)
        )
        answer[name] = {"equal": equal, "requests": requests, "allocations": memory}
    return {"models": answer, "live": live()}
