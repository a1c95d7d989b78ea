"""Measures what a process pays for the delegate before its first inference: time and peak of
memory.

    python -m benchmarks.start_up [MODEL...] [--other ROOT] [--runs 10]

Three ways: programs from the cache, compiled ahead of time, compiled now; each a process of its own
beside one without the delegate, in turns, so that other work on the machine meets all alike. The
numbers are differences to the one without: medians of processor time from before ``import
delegate`` to the loaded interpreter, and of the peak of memory. ``--other``: another checkout with
its native part built in place, measured in turns with this one; its share of the cost is the last
column. Device: null.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delegate.cli.command import positive_integer  # noqa: E402
from delegate.cli.table import format_table  # noqa: E402
from tools.script import ScriptParser, existing_file, existing_folder, run_script  # noqa: E402

MODELS = ROOT.parent / "shared" / "models"
DEFAULT = (MODELS / "resnet8_cifar10_int8.tflite", MODELS / "mobilenet_v1_1.0_224_quant.tflite")
WAYS = ("cache", "compiled", "compiling")
LOADING = """
import sys, time
sys.path.insert(0, sys.argv[1])
model, cache = sys.argv[2:4]
try:
    from tflite_runtime.interpreter import Interpreter, load_delegate
except ImportError:
    from ai_edge_litert.interpreter import Interpreter, load_delegate
start = time.process_time()
plugins = []
if cache:
    import delegate
    options = {"device": "null", "log_level": "error", "cache_dir": cache}
    plugins = [load_delegate(delegate.library_path(), options)]
interpreter = Interpreter(model, experimental_delegates=plugins)
interpreter.allocate_tensors()
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print((time.process_time() - start) * 1e3, int(peak.split()[1]) / 1024)
"""


def load(root: Path, model: Path, cache: str) -> tuple[float, float]:
    """Processor time in ms and peak of memory in MB of one process."""
    done = subprocess.run(
        [sys.executable, "-c", LOADING, str(root), str(model), cache],
        capture_output=True, text=True, check=True, cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    time_ms, peak_mb = map(float, done.stdout.split())
    return time_ms, peak_mb


def forget(path: Path) -> None:
    """Out of the page cache, as after a boot: what was just written is there in pieces of 2 MB."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(roots: list[Path], model: Path, way: str, runs: int) -> list[tuple[float, float]]:
    """Return what the delegate of each root adds."""
    with tempfile.TemporaryDirectory() as folder:
        files, caches = [], []
        for number, root in enumerate(roots):
            cache = Path(folder) / f"cache-{number}"
            cache.mkdir(mode=0o700)
            chosen = model
            if way == "compiled":
                chosen = Path(folder) / f"{number}.tflite"
                subprocess.run(
                    [sys.executable, "-m", "delegate", "compile", str(model), "-o", str(chosen)],
                    check=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
                    capture_output=True,
                )  # fmt: skip
                forget(chosen)
            files.append(chosen)
            caches.append(str(cache) if way == "cache" else "off")
            load(root, chosen, caches[-1])
        alone, ours = [], [[] for _ in roots]
        for _ in range(runs):
            alone.append(load(roots[0], model, ""))
            for number, root in enumerate(roots):
                ours[number].append(load(root, files[number], caches[number]))
    base = [statistics.median(column) for column in zip(*alone, strict=True)]
    return [
        (
            statistics.median(row[0] for row in rows) - base[0],
            statistics.median(row[1] for row in rows) - base[1],
        )
        for rows in ours
    ]


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("models", nargs="*", type=existing_file, metavar="MODEL")
    parser.add_argument("--other", type=existing_folder, metavar="ROOT")
    parser.add_argument("--runs", type=positive_integer, default=10)
    arguments = parser.parse_args()
    roots = [ROOT] + ([arguments.other.resolve()] if arguments.other else [])
    rows = []
    for model in arguments.models or DEFAULT:
        for way in WAYS:
            found = measure(roots, model.resolve(), way, arguments.runs)
            time_ms, peak_mb = found[0]
            row = [model.stem, way, f"{time_ms:.0f}", f"{peak_mb:.1f}"]
            if len(found) > 1:
                row += [f"{found[1][0]:.0f}", f"{found[1][1]:.1f}"]
                row.append(f"{time_ms / found[1][0]:.0%} / {peak_mb / found[1][1]:.0%}")
            rows.append(row)
    heads = ["model", "programs", "ms", "MB"]
    heads += ["other ms", "other MB", "ratio"] if arguments.other else []
    print(format_table(heads, rows, right=range(2, len(heads)), last="keep"))
    return 0


if __name__ == "__main__":
    run_script(main)
