"""Interpreters of mixed models in many threads: the results of one thread alone."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import delegate
from delegate.host.runtimes import find_runtime
from tests.kernel.model_results import outputs_of, run_on
from tests.kernel.small_models import MODELS
from tests.kernel.standin_calls import live, submits_by_mask

SEEDS = 3


def work(
    device: str, cores: str, threads: int, invokes: int, models: list[str], chip: str = ""
) -> dict[str, Any]:
    runtime = find_runtime()
    contents = {name: MODELS[name]() for name in models}

    def interpreter(name, own):
        options = {"device": own, "timeout_ms": "120000", "cores": cores}
        if own == "simulator" and chip:
            options |= {"chip": chip, "cores": "auto"}
        plugin = runtime.load_delegate(delegate.library_path(), options)
        return runtime.interpreter(contents[name], [plugin])

    def invoke(item, seed):
        run_on(item, seed)
        return outputs_of(item)

    expected = {}
    for name in models:
        alone = interpreter(name, "simulator")
        expected[name] = [invoke(alone, seed) for seed in range(SEEDS)]

    failures: list[str] = []
    files: list[int] = []
    gate = threading.Barrier(threads)

    def one(thread):
        try:
            own = {name: interpreter(name, device) for name in models}
            gate.wait()
            files.append(live()[0])
            for i in range(invokes):
                name = models[(thread + i) % len(models)]
                seed = (thread * 7 + i) % SEEDS
                for ours, theirs in zip(invoke(own[name], seed), expected[name][seed], strict=True):
                    if not np.array_equal(ours, theirs):
                        failures.append(f"thread {thread} invoke {i}: {name} differs")
        except Exception as error:
            failures.append(f"thread {thread}: {error}")
            gate.abort()

    running = [threading.Thread(target=one, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return {"failures": failures, "files": max(files, default=0), "masks": submits_by_mask()}
