"""One interpreter with the delegate beside the same one without: ratio of times, and peak memory.

    python -m benchmarks.side_by_side [MODEL...] [--runs 60] [--rounds 3] [--threads 1] [--check]

Without MODEL: mobilenet_v1_1.0_224_quant of the folder of public models. Inferences of both take
turns, five at a time; every round loads both anew. Device: the simulator, so the ratio says what
running programs without an NPU costs, nothing about an NPU. With --check the exit code is 1 if the
simulator is slower than the CPU alone or a process takes more than the model's size and 64 MB.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delegate.cli.command import positive_integer  # noqa: E402
from delegate.cli.table import format_table  # noqa: E402
from delegate.host.samples import random_sample  # noqa: E402
from delegate.insight.benchmark import Plan, benchmark  # noqa: E402
from delegate.options import Options  # noqa: E402
from tools.script import ScriptParser, existing_file, run_script  # noqa: E402

DEFAULT_MODEL = ROOT.parent / "shared" / "models" / "mobilenet_v1_1.0_224_quant.tflite"
NO_ENVIRONMENT: dict[str, str] = {}
WARMUP = 5


def compare(path: Path, runs: int, rounds: int, threads: int) -> dict[str, Any]:
    """Medians over all rounds, and the largest memory of any."""
    options = Options.from_mapping({"device": "simulator"}, NO_ENVIRONMENT)
    plan = Plan(WARMUP, runs, threads, with_cpu=True)
    documents = [
        benchmark(path, options, lambda inputs: random_sample(inputs, 0), plan, lambda: None)
        for _ in range(rounds)
    ]
    memory = [d["memory"] for d in documents if d["memory"] is not None]
    return {
        "model": path.stem,
        "threads": threads,
        "delegate_ms": statistics.median(d["delegate"]["steady"]["p50_ms"] for d in documents),
        "cpu_ms": statistics.median(d["cpu"]["steady"]["p50_ms"] for d in documents),
        "ratio": statistics.median(d["simulator_ratio"] for d in documents),
        "ratios": [d["simulator_ratio"] for d in documents],
        "peak_bytes": max((m["delegate"]["peak_bytes"] for m in memory), default=None),
        "cpu_peak_bytes": max((m["cpu"]["peak_bytes"] for m in memory), default=None),
        "limit_bytes": memory[0]["limit_bytes"] if memory else None,
        "runtime": "{runtime} {runtime_version}".format(**documents[0]["host"]),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("models", type=existing_file, nargs="*", metavar="MODEL")
    parser.add_argument("--runs", type=positive_integer, default=60)
    parser.add_argument("--rounds", type=positive_integer, default=3)
    parser.add_argument("--threads", type=positive_integer, default=1)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    models: list[Path] = chosen.models or [DEFAULT_MODEL]
    rows = [compare(p, chosen.runs, chosen.rounds, chosen.threads) for p in models]
    if chosen.json:
        print(json.dumps(rows, indent=1))
    else:
        print(f"{rows[0]['runtime']}, {chosen.threads} thread(s) each; medians, megabytes at most")
        headings = ("delegate ms", "CPU ms", "ratio", "delegate MB", "CPU MB", "limit MB", "model")
        print(format_table(headings, [_cells(row) for row in rows], right=range(6)))
    missed = [row["model"] for row in rows if _misses(row)]
    if chosen.check and missed:
        print(f"slower than the CPU alone or above the limit: {', '.join(missed)}")
        return 1
    return 0


def _misses(row: dict[str, Any]) -> bool:
    too_large = row["peak_bytes"] is not None and row["peak_bytes"] > row["limit_bytes"]
    return row["ratio"] > 1 or bool(too_large)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    def megabytes(key: str) -> str:
        return "-" if row[key] is None else f"{row[key] / 1e6:.1f}"

    return (
        f"{row['delegate_ms']:.2f}",
        f"{row['cpu_ms']:.2f}",
        f"{row['ratio']:.3f}",
        megabytes("peak_bytes"),
        megabytes("cpu_peak_bytes"),
        megabytes("limit_bytes"),
        row["model"],
    )


if __name__ == "__main__":
    run_script(main)
