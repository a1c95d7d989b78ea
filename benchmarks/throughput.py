"""Inferences per second with 1 to N interpreters, each in a thread of its own.

    python -m benchmarks.throughput MODEL [--device rocket] [--cores auto] [--interpreters 1,2,3]

The three cores of an NPU work at once if several interpreters do. With the simulator the figures
are the host's, not an NPU's.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import delegate
from delegate.cli.command import positive_float, positive_integer
from delegate.host.runtimes import find_runtime
from tools.script import ScriptParser, existing_file, run_script


def _interpreter(model: Path, options: dict[str, str]) -> Any:
    runtime = find_runtime()
    plugin = runtime.load_delegate(delegate.library_path(), options)
    interpreter = runtime.interpreter(model, [plugin])
    for details in interpreter.get_input_details():
        interpreter.set_tensor(details["index"], np.zeros(details["shape"], details["dtype"]))
    interpreter.invoke()  # warm-up
    return interpreter


def measure(model: Path, options: dict[str, str], count: int, seconds: float) -> dict[str, float]:
    """Invokes ``count`` interpreters for ``seconds``; per second in all, and the median latency."""
    interpreters = [_interpreter(model, options) for _ in range(count)]
    gate = threading.Barrier(count + 1)
    latencies: list[list[float]] = [[] for _ in range(count)]

    def work(i: int) -> None:
        gate.wait()
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            interpreters[i].invoke()
            latencies[i].append(time.perf_counter() - start)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    gate.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - start
    total = sum(len(each) for each in latencies)
    return {
        "interpreters": count,
        "per_second": total / elapsed,
        "median_ms": float(np.median(np.concatenate(latencies))) * 1000,
    }


def counts(text: str) -> list[int]:
    """For argparse: positive integers between commas."""
    return [positive_integer(part) for part in text.split(",")]


def main(argv: Sequence[str] | None = None) -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("model", type=existing_file, metavar="MODEL")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cores", default="auto")
    parser.add_argument("--interpreters", type=counts, default=[1, 2, 3, 4, 6])
    parser.add_argument("--seconds", type=positive_float, default=3.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    options = {"device": arguments.device, "cores": arguments.cores}
    rows = [
        measure(arguments.model, options, count, arguments.seconds)
        for count in arguments.interpreters
    ]
    if arguments.json:
        json.dump({"model": arguments.model.name, **options, "rows": rows}, sys.stdout, indent=2)
        print()
        return 0
    print("interpreters  per second  median ms  against one")
    for row in rows:
        gain = row["per_second"] / rows[0]["per_second"]
        print(
            f"{row['interpreters']:12.0f}  {row['per_second']:10.1f}  {row['median_ms']:9.2f}  "
            f"{gain:11.2f}"
        )
    return 0


if __name__ == "__main__":
    run_script(main)
