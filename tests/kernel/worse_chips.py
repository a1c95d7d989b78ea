"""Every way in which the stand-in kernel's chip can be worse, against whole models, as a table.

``python -m tests.kernel.worse_chips [--ways WAY ...] [--device rocket] [MODEL ...]``: for each way
a fresh board; every partition also runs on a healthy simulator, which ends an inference that
differs. A row says, per model, how many nodes the NPU computed, all of them right, or WRONG. Exits
with 1 if anything was wrong. Without arguments all ways and four models: hours on two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.kernel.board import Board, build_standin
from tests.kernel.test_proofs import run, states, ways
from tests.shared_folder import MODELS

NAMES = (
    "mobilenet_v1_1.0_224_quant.tflite",
    "mobilenet_v2_1.0_224_int8_per_channel.tflite",
    "yolov8n_224_int8.tflite",
    "float/mediapipe_selfie_segmentation.tflite",
)


def row(library: Path, device: str, way: str, models: list[str]) -> tuple[str, bool]:
    """The table's row, and whether all is right."""
    with tempfile.TemporaryDirectory() as folder:
        board = Board(Path(folder) / "root", library)
        if device == "rocket":
            board.add_rocket(hang_ms=20)
        else:
            board.add_rknpu()
        found = run(board, *models, device=device, broken=way, timeout_ms="3000")
        lacking = sorted(name for name, state in states(board).items() if state != "proved")
    cells = []
    is_right = True
    for model in models:
        facts = found[model]
        if facts["error"]:
            is_right = False
            cells.append(f"WRONG: {facts['error'][:80]}")
        else:
            cells.append(f"{facts['delegated']} of {facts['total']}")
    return f"| `{way or 'healthy'}` | {' | '.join(cells)} | {', '.join(lacking)} |", is_right


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ways", nargs="*", default=["", *ways()])
    parser.add_argument("--device", default="rocket", choices=("rocket", "rknpu"))
    parser.add_argument("models", nargs="*", default=[str(MODELS / name) for name in NAMES])
    given = parser.parse_args()
    library = build_standin() / "libstandin_kernel.so"
    names = " | ".join(Path(model).stem for model in given.models)
    print(f"| chip | {names} | switched off |")
    print("| --- |" + " --- |" * (len(given.models) + 1))
    wrong = 0
    for way in given.ways:
        text, is_right = row(library, given.device, way, given.models)
        print(text, flush=True)
        wrong += not is_right
    print(json.dumps({"ways": len(given.ways), "wrong": wrong}), file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
