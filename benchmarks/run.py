"""Measures plans, compilation, host conversion and the simulator; tables, JSON and SVG.

    python benchmarks/run.py [--models DIR] [--out DIR] [--quick]

Tasks and cycles are modelled (see delegate/lower/tiling/geometry.py) and compared with programs of
two other compilers, counted by the same formulas. Times are of this machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.bounds import (  # noqa: E402
    BOUNDS,
    MOST_BYTES_OVER_FLOOR,
    Bound,
    bytes_floor,
)
from benchmarks.chart import bar_chart  # noqa: E402
from benchmarks.conversion import conversion_rows  # noqa: E402
from benchmarks.growth import growth_rows  # noqa: E402
from delegate._native import Executable  # noqa: E402
from delegate.cli.table import format_table, thousands  # noqa: E402
from delegate.compile.cache import compile_cached  # noqa: E402
from delegate.compile.compiler import compile_model  # noqa: E402
from delegate.lower.task import BufferId  # noqa: E402
from delegate.model.tflite_reader import read_graph  # noqa: E402
from delegate.npu.program import parse  # noqa: E402
from delegate.options import Options  # noqa: E402
from tools.script import ScriptParser, existing_folder, run_script  # noqa: E402

SHARED = ROOT.parent / "shared" / "models"
NO_ENVIRONMENT: dict[str, str] = {}

# A fresh interpreter, so that nothing is warm but the disk's cache.
COLD = """
import re, sys, time
from delegate.compile.compiler import compile_model
from delegate.options import Options
def peak_kib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1))
before = peak_kib()
wall, cpu = time.perf_counter(), time.process_time()
compile_model(sys.argv[1], Options())
print(time.perf_counter() - wall, time.process_time() - cpu,
      peak_kib() - before)
"""


# Memory of its own that each further interpreter of a process takes.
INTERPRETERS = """
import re, sys
import delegate
from delegate.host.runtimes import find_runtime
def own_kib():
    text = open("/proc/self/smaps_rollup").read()
    return int(re.search(r"Anonymous:\\s+(\\d+)", text).group(1))
runtime, kept, sizes = find_runtime(), [], []
model = open(sys.argv[1], "rb").read()
for _ in range(5):
    plugin = runtime.load_delegate(delegate.library_path(), {"device": "null"})
    interpreter = runtime.interpreter(model, [plugin])
    interpreter.invoke()
    kept.append((interpreter, plugin))
    sizes.append(own_kib())
print((sizes[-1] - sizes[1]) / 3)
"""


def plan_row(path: Path) -> dict[str, Any]:
    result = compile_model(path, Options())
    tasks = sum(item.tasks for item in result.partitions)
    moved = sum(item.estimate.bytes for item in result.partitions)
    floor = sum(bytes_floor(layer) for item in result.partitions for layer in item.layers)
    bound = BOUNDS.get(path.stem)
    scratch = sum(
        parse(item.program).buffers[BufferId.SCRATCH].size_bytes for item in result.partitions
    )
    live = sum(item.live_bytes for item in result.partitions)
    return {
        "model": path.stem,
        "partitions": len(result.partitions),
        "nodes": result.delegated_nodes,
        "tasks": tasks,
        "cycles": sum(item.estimate.cycles for item in result.partitions),
        "bytes": moved,
        "bytes_floor": floor,
        "bytes_over_floor": moved / floor if floor else 1.0,
        "bytes_at_most": MOST_BYTES_OVER_FLOOR,
        "activations_kib": scratch / 1024,
        "activations_over_live": scratch / live if live else 1.0,
        "bound": None if bound is None else bound.as_dict(),
    }


def compile_row(path: Path, repeats: int) -> dict[str, Any]:
    runs = []
    for _ in range(repeats):
        output = subprocess.run(
            [sys.executable, "-c", COLD, str(path)],
            check=True, capture_output=True, text=True, cwd=ROOT,
        ).stdout  # fmt: skip
        runs.append([float(value) for value in output.split()])
    wall, cpu, memory_kib = np.min(np.array(runs), axis=0)
    further = subprocess.run(
        [sys.executable, "-c", INTERPRETERS, str(path)],
        check=True, capture_output=True, text=True, cwd=ROOT,
    ).stdout  # fmt: skip
    graph = read_graph(path)
    with tempfile.TemporaryDirectory() as folder:
        options = Options.from_mapping({"cache_dir": folder}, NO_ENVIRONMENT)
        compile_cached(graph, options, lambda: compile_model(graph, Options()))
        cached = []
        for _ in range(5):
            start = time.process_time()
            result = compile_cached(graph, options, lambda: compile_model(graph, Options()))
            cached.append(time.process_time() - start)
            assert result.from_cache
    return {
        "model": path.stem,
        "model_bytes": path.stat().st_size,
        "cold_ms": wall * 1e3,
        "cold_cpu_ms": cpu * 1e3,
        "memory_mib": memory_kib / 1024,
        "cached_cpu_ms": min(cached) * 1e3,
        "next_interpreter_mib": float(further) / 1024,
    }


def run_row(path: Path, repeats: int) -> dict[str, Any]:
    """Per inference: host conversion alone (device null) and the simulator, all partitions."""
    result = compile_model(path, Options())
    row: dict[str, Any] = {"model": path.stem}
    rng = np.random.default_rng(1)
    for device, count in (("null", repeats), ("simulator", 3)):
        total = 0.0
        for item in result.partitions:
            executable = Executable(item.program, device)
            tensors = [result.graph.tensor(index) for index in item.partition.inputs]
            arrays = [
                rng.integers(0, 120, tensor.shape).astype(tensor.dtype.name.lower())
                for tensor in tensors
            ]
            times = []
            for _ in range(count):
                start = time.perf_counter()
                executable.run(arrays)
                times.append(time.perf_counter() - start)
            total += float(np.median(times))
        row[f"{device}_ms"] = total * 1e3
    row["cpu_ms"] = cpu_ms(path)
    return row


def cpu_ms(path: Path) -> float | None:
    """The whole model by the runtime's own kernels on one thread."""
    from delegate.host.runtimes import find_runtime

    interpreter = find_runtime().module.Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    times = []
    for _ in range(4):
        start = time.perf_counter()
        interpreter.invoke()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def show(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    print(f"\n{title}")
    right = tuple(range(1, len(columns)))
    print(
        format_table(columns, [tuple(cell(row[c]) for c in columns) for row in rows], right=right)
    )


def cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, int):
        return thousands(value)
    return "-" if value is None else value


def with_bound(row: dict[str, Any]) -> dict[str, Any]:
    bound = BOUNDS.get(row["model"], Bound())
    return {**row, "at most": bound.text(bound.tasks, bound.cycles), "mesa": bound.mesa,
            "vendor": bound.vendor}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("--models", type=existing_folder, default=SHARED, metavar="DIR")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "benchmarks", metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="plans and conversions only")
    chosen = parser.parse_args(arguments)
    models = sorted(chosen.models.glob("*.tflite"))
    if not models:
        parser.error(f"no models in {chosen.models}")
    document: dict[str, Any] = {"plans": [plan_row(path) for path in models]}
    show(
        "plans (modelled)",
        [with_bound(row) for row in document["plans"]],
        ("model", "nodes", "partitions", "tasks", "cycles", "at most", "mesa", "vendor",
         "bytes", "bytes_floor", "bytes_over_floor", "bytes_at_most",
         "activations_kib", "activations_over_live"),
    )  # fmt: skip
    document["layouts"] = conversion_rows(repeats=300)
    show("host conversion", document["layouts"], tuple(document["layouts"][0]))
    if not chosen.quick:
        document["compile"] = [compile_row(path, repeats=3) for path in models]
        if document["compile"]:
            show("compilation", document["compile"], tuple(document["compile"][0]))
        document["growth"] = growth_rows()
        show("compilation against size", document["growth"], tuple(document["growth"][0]))
        document["run"] = [run_row(path, repeats=200) for path in models]
        if document["run"]:
            show("one inference, all partitions", document["run"], tuple(document["run"][0]))
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "benchmarks.json").write_text(json.dumps(document, indent=1) + "\n")
    chart = bar_chart(
        "modelled cycles over the bound (less is better)",
        [
            (row["model"], row["cycles"] / row["bound"]["cycles"])
            for row in document["plans"]
            if row["bound"]
        ],
    )
    (chosen.out / "plans.svg").write_text(chart)
    print(f"\nwrote {chosen.out / 'benchmarks.json'} and {chosen.out / 'plans.svg'}")
    return 0


if __name__ == "__main__":
    run_script(main)
