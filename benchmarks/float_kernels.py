"""The simulator with float models in fp16 beside TensorFlow Lite's float kernels, a thread each.

    python -m benchmarks.float_kernels [MODEL...] [--runs 40]

Without MODEL: the float models of the folder of public models. Inferences take turns, and the
fastest of each counts, in time of the processor, so that other load of the machine tells little.
Two columns for the CPU: the runtime's own kernels, and those of XNNPACK, which it takes by default.
"-": the runtime has no kernel for some node. Says nothing about an NPU.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delegate.cli.command import positive_integer  # noqa: E402
from delegate.cli.table import format_table  # noqa: E402
from delegate.host.library import library_path  # noqa: E402
from delegate.host.runtimes import Runtime, find_runtime  # noqa: E402
from tools.script import ScriptParser, existing_file, run_script  # noqa: E402

FLOAT = ROOT.parent / "shared" / "models" / "float"
OPTIONS = {"device": "simulator", "float": "fp16"}


def _cpu(runtime: Runtime, path: Path, resolver: str) -> Any:
    module = runtime.module
    try:
        interpreter = module.Interpreter(
            model_path=str(path),
            num_threads=1,
            experimental_op_resolver_type=module.OpResolverType[resolver],
        )
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):
        return None
    return interpreter


def measure(path: Path, runs: int) -> list[float | None]:
    """The fastest inference in milliseconds: the simulator, the runtime's kernels, XNNPACK."""
    runtime = find_runtime()
    plugin = runtime.load_delegate(library_path(), OPTIONS)
    interpreters = [
        runtime.interpreter(path, [plugin], threads=1),
        _cpu(runtime, path, "BUILTIN_WITHOUT_DEFAULT_DELEGATES"),
        _cpu(runtime, path, "AUTO"),
    ]
    best: list[float | None] = [None] * len(interpreters)
    rng = np.random.default_rng(0)
    for interpreter in filter(None, interpreters):
        for entry in interpreter.get_input_details():
            interpreter.set_tensor(entry["index"], rng.random(entry["shape"], dtype=np.float32))
        interpreter.invoke()
    for _ in range(runs):
        for number, interpreter in enumerate(interpreters):
            if interpreter is None:
                continue
            start = time.process_time()
            interpreter.invoke()
            took = (time.process_time() - start) * 1000
            before = best[number]
            best[number] = took if before is None else min(before, took)
    return best


def main(arguments: list[str] | None = None) -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("models", type=existing_file, nargs="*", metavar="MODEL")
    parser.add_argument("--runs", type=positive_integer, default=40, help="default 40")
    chosen = parser.parse_args(arguments)
    models: list[Path] = chosen.models or sorted(FLOAT.glob("*.tflite"))
    if not models:
        parser.error(f"no models in {FLOAT}: give some")
    rows = []
    for path in models:
        ours, own, xnnpack = measure(path, chosen.runs)
        assert ours is not None
        times = ["-" if ms is None else f"{ms:.2f}" for ms in (ours, own, xnnpack)]
        ratios = ["-" if ms is None else f"{ours / ms:.2f}" for ms in (own, xnnpack)]
        rows.append((*times, *ratios, path.stem))
    headings = ("simulator ms", "kernels ms", "XNNPACK ms", "to kernels", "to XNNPACK", "model")
    print(format_table(headings, rows, right=range(5)))
    return 0


if __name__ == "__main__":
    run_script(main)
