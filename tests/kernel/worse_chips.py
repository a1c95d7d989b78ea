"""Every way in which the stand-in kernel's chip can be worse, against whole models, as a table.

``python -m tests.kernel.worse_chips [--jobs N] [--results FILE] [--ways WAY ...] [MODEL ...]``: for
each way a fresh board; every partition also runs on a healthy simulator, which ends an inference
that differs, and the model's results are compared with TensorFlow Lite's reference kernels. A row
says, per model, how many nodes the NPU computed, and by how much results are off, or WRONG. Exits
with 1 if anything was wrong, or stayed on the CPU without a reason.

Without arguments all ways and four models. Programs that boards without the same features need are
compiled once: they are kept in a folder of programs as option ``cache_dir`` has it, the board's
record is not. ``--folder`` keeps them and the reference's results for the next time, ``--results``
the rows; those it has are not run again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from delegate.chip.rk3588 import RK3588
from delegate.host.reference import ReferenceModel
from tests.kernel.board import Board, build_standin
from tests.kernel.evidence_runs import off, run
from tests.kernel.model_results import inputs_of
from tests.shared_folder import MODELS

NAMES = (
    "mobilenet_v1_1.0_224_quant.tflite",
    "mobilenet_v2_1.0_224_int8_per_channel.tflite",
    "yolov8n_224_int8.tflite",
    "float/mediapipe_face_detection_short_range.tflite",
)
HEALTHY = "healthy"


def ways() -> Iterator[str]:
    """Every feature absent, and every one hanging."""
    for feature in RK3588.features:
        yield feature.name
        yield f"{feature.name}:hangs"


class Table:
    """Rows of ``models``; ``folder`` keeps what all rows share: programs, and the reference's
    results.
    """

    def __init__(self, folder: Path, device: str, models: Sequence[str]) -> None:
        self._library = build_standin() / "libstandin_kernel.so"
        self._device = device
        self._models = models
        self._programs = folder / "programs"
        self._programs.mkdir(parents=True, exist_ok=True)
        self._reference = folder / f"{zlib.crc32(repr(models).encode()):08x}.npz"
        if self._reference.exists():
            return
        arrays = {}
        for number, model in enumerate(models):
            plain = ReferenceModel.load(Path(model), reference_kernels=True)
            for index, output in enumerate(plain.run(inputs_of(plain.inputs))):
                arrays[f"{number} {index}"] = output
        np.savez(self._reference, **arrays)

    def row(self, way: str) -> dict[str, Any]:
        """What a board whose chip is worse in this ``way`` made of the models."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            board = Board(folder / "root", self._library)
            if self._device == "rocket":
                board.add_rocket(hang_ms=20)
            else:
                board.add_rknpu()
            cache = folder / "cache"
            cache.mkdir(mode=0o700)
            _link_programs(self._programs, cache)
            found = run(
                board,
                *self._models,
                device=self._device,
                broken="" if way == HEALTHY else way,
                reference=str(self._reference),
                timeout_ms="3000",
                cache_dir=str(cache),
                float="fp16",
            )
            _link_programs(cache, self._programs)
            lacking = sorted(off(board, cache))
        return {
            "way": way,
            "models": [found[model] for model in self._models],
            "switched_off": lacking,
        }


def _link_programs(source: Path, target: Path) -> None:
    for path in source.glob("*.rkc"):
        if not (target / path.name).exists():
            os.link(path, target / path.name)


def problems(row: dict[str, Any]) -> list[str]:
    """What is wrong with a row: an error, or nodes on the CPU without a reason."""
    found = [facts["error"] for facts in row["models"] if facts["error"]]
    for facts in row["models"]:
        if not facts["error"] and facts["delegated"] < facts["total"] and not facts["reasons"]:
            found.append(f"{facts['total'] - facts['delegated']} nodes left without a reason")
    return found


def text_of(row: dict[str, Any]) -> str:
    """The table's row."""
    return f"| `{row['way']}` {cells_of(row)}"


def cells_of(row: dict[str, Any]) -> str:
    """What a row says behind its way."""
    cells = []
    for facts in row["models"]:
        if facts["error"]:
            cells.append(f"WRONG: {facts['error'][:80]}")
            continue
        differing = facts.get("differing")
        off = f", {differing:.2%} off by {facts['worst']:g}" if differing else ""
        cells.append(f"{facts['delegated']}{off}")
    lacking = ", ".join(f"`{name}`" for name in row["switched_off"])
    return f"| {' | '.join(cells)} | {lacking} |"


def page_of(models: Sequence[str], rows: Sequence[dict[str, Any]], device: str) -> str:
    """A page of documentation; ways of one feature with the same cells share a row."""
    lines = [_PAGE.format(ways=len(rows), device=device), head_of(models, rows)]
    for cells, alike in itertools.groupby(rows, key=cells_of):
        for _, group in itertools.groupby(alike, key=lambda row: row["way"].partition(":")[0]):
            lines.append(f"| {', '.join('`' + row['way'] + '`' for row in group)} {cells}")
    return "\n".join(lines) + "\n"


_PAGE = """\
# Worse chips

Generated by `python -m tests.kernel.worse_chips --page docs/worse_chips.md`. Do not edit.

Boards whose chip lacks a [feature](features.md), hangs on it or deviates in a way that was reported
([how](simulator.md#a-worse-chip)), {ways} of them, each with whole models on the stand-in kernel
({device}): how many nodes the NPU computed after the board's
[proofs](board.md#proof-at-first-use), and which features these switched off. Every partition also
ran on a healthy simulator, byte for byte the same, or it would say WRONG here; and the models'
results were compared with the reference kernels', for random inputs: the share that differs and by
how much at most, where any does. Roundings of one step in a layer add up on the way to a model's
results, and a softmax behind them makes more of them; the float model runs in fp16 (`float=fp16`),
nearly every element of which differs from float32's. What the NPU did not compute was left to the
CPU with its reason.
"""


def head_of(models: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """The table's first two lines; each model with its number of nodes."""
    totals = [max(row["models"][i].get("total", 0) for row in rows) for i in range(len(models))]
    names = " | ".join(f"{Path(m).stem} ({n})" for m, n in zip(models, totals, strict=True))
    return f"| chip | {names} | switched off |\n| --- |" + " --- |" * (len(models) + 1)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ways", nargs="*", default=[HEALTHY, *ways()])
    parser.add_argument("--device", default="rocket", choices=("rocket", "rknpu"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("models", nargs="*", default=[str(MODELS / name) for name in NAMES])
    given = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    if given.results and given.results.exists():
        lines = given.results.read_text(encoding="utf-8").splitlines()
        rows = {row["way"]: row for row in map(json.loads, lines)}
    with tempfile.TemporaryDirectory() as fresh, ThreadPoolExecutor(given.jobs) as pool:
        left = [way for way in given.ways if way not in rows]
        table = Table(given.folder or Path(fresh), given.device, given.models)
        for row in pool.map(table.row, left):
            rows[row["way"]] = row
            print(text_of(row), file=sys.stderr, flush=True)
            if given.results:
                with given.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    chosen = [rows[way] for way in given.ways]
    print("\n".join([head_of(given.models, chosen), *map(text_of, chosen)]))
    if given.page:
        text = page_of(given.models, chosen, given.device)
        given.page.write_text(text, encoding="utf-8")
    wrong = {row["way"]: found for row in chosen if (found := problems(row))}
    print(json.dumps({"ways": len(chosen), "wrong": wrong}), file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
