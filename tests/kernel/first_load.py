"""Measures what evidence costs: the first load of a model on a fresh board, the second one, and an
invoke.

``python -m tests.kernel.first_load [--device rocket] [--times N] MODEL``: on the stand-in kernel,
whose NPU is a simulator of one thread: the best of N processes each, with evidence off, on a fresh
board, and on the board that the model has met. Prints seconds of the load, submits while loading,
and the requests of an invoke.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.builds import build_standin
from tests.kernel.board import Board
from tests.kernel.evidence_runs import run


def measured(folder: Path, library: Path, device: str, model: str) -> dict[str, dict[str, Any]]:
    """Facts of one load of each kind, on a board of its own."""
    board = Board(folder, library)
    getattr(board, f"add_{device}")()
    found = {}
    for name, verify in (("verify=off", "off"), ("fresh board", "auto"), ("met before", "auto")):
        facts = run(
            board, model, device=device, count_invoke=True, verify=verify
        )[model]  # fmt: skip
        if facts["error"]:
            sys.exit(f"{name}: {facts['error']}")
        found[name] = facts
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="rocket", choices=("rocket", "rknpu"))
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("model")
    given = parser.parse_args()
    library = build_standin() / "libstandin_kernel.so"
    with tempfile.TemporaryDirectory() as folder:
        rounds = [
            measured(Path(folder) / str(number), library, given.device, given.model)
            for number in range(given.times)
        ]
    print("| load | seconds | submits | requests of an invoke |")
    print("| --- | --- | --- | --- |")
    for name, facts in rounds[0].items():
        seconds = min(found[name]["seconds"] for found in rounds)
        requests = ", ".join(f"{key} {count}" for key, count in sorted(facts["invoke"].items()))
        print(f"| {name} | {seconds:.2f} | {facts['submits']} | {requests} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
