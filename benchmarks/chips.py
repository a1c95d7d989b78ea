"""The table of docs/chips.md: what models are on each chip.

    python -m benchmarks.chips MODEL...

Cycles are modelled, the NPU's part of an inference only.
"""

from __future__ import annotations

from pathlib import Path

from delegate.chip import NAMES
from delegate.compile.compiler import compile_model
from delegate.options import Options
from tools.script import ScriptParser, existing_file, run_script


def cells(path: Path, chip: str) -> list[str]:
    """Nodes, partitions, tasks and cycles."""
    result = compile_model(path, Options(chip=chip, deny_ops=()))
    tasks = sum(compiled.tasks for compiled in result.partitions)
    cycles = sum(compiled.estimate.cycles for compiled in result.partitions)
    nodes = f"{result.delegated_nodes} of {result.total_nodes}"
    return [nodes, str(len(result.partitions)), str(tasks), f"{cycles:,}"]


def main(arguments: list[str] | None = None) -> int:
    """Prints a row for each model."""
    parser = ScriptParser(__doc__)
    parser.add_argument("models", type=existing_file, nargs="+", metavar="MODEL")
    models: list[Path] = parser.parse_args(arguments).models
    columns = [
        f"{chip}: {what}" for chip in NAMES for what in ("nodes", "partitions", "tasks", "cycles")
    ]
    print("| model |", " | ".join(columns), "|")
    print("| --- |", " | ".join("---" for _ in columns), "|")
    for path in sorted(models):
        print(f"| `{path.stem}` |", " | ".join(c for n in NAMES for c in cells(path, n)), "|")
    return 0


if __name__ == "__main__":
    run_script(main)
