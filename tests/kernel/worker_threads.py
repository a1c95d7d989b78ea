"""Interpreters of mixed models in many threads: the results of one thread alone."""

from __future__ import annotations

import threading

import numpy as np

import delegate
from delegate.host.runtimes import find_runtime
from tests.kernel.model_results import outputs_of, run_on
from tests.kernel.small_models import MODELS
from tests.kernel.standin_calls import arguments, live, report, submits_by_mask

SEEDS = 3


def main() -> None:
    given = arguments()
    runtime = find_runtime()
    models = {name: MODELS[name]() for name in given["models"]}

    def interpreter(name, device):
        options = {"device": device, "timeout_ms": "120000", "cores": given["cores"]}
        if device == "simulator" and "chip" in given:
            options["chip"] = given["chip"]
            options["cores"] = "auto"
        plugin = runtime.load_delegate(delegate.library_path(), options)
        return runtime.interpreter(models[name], [plugin])

    def invoke(item, seed):
        run_on(item, seed)
        return outputs_of(item)

    expected = {}
    for name in models:
        alone = interpreter(name, "simulator")
        expected[name] = [invoke(alone, seed) for seed in range(SEEDS)]

    failures: list[str] = []
    files: list[int] = []
    gate = threading.Barrier(given["threads"])

    def work(thread):
        try:
            own = {name: interpreter(name, given["device"]) for name in models}
            gate.wait()
            files.append(live()[0])
            for i in range(given["invokes"]):
                name = list(models)[(thread + i) % len(models)]
                seed = (thread * 7 + i) % SEEDS
                for ours, theirs in zip(invoke(own[name], seed), expected[name][seed], strict=True):
                    if not np.array_equal(ours, theirs):
                        failures.append(f"thread {thread} invoke {i}: {name} differs")
        except Exception as error:
            failures.append(f"thread {thread}: {error}")
            gate.abort()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(given["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report(
        {
            "failures": failures,
            "files": max(files, default=0),
            "masks": submits_by_mask(),
        }
    )


if __name__ == "__main__":
    main()
