"""Whole models on the stand-in kernel with chips that are worse, as a table and a page.

``python -m tests.kernel.worse_chips [--each] [--pairs N] [--jobs N] [--ways WAY ... --] [MODEL
...]``: for each way and model a fresh board; every partition also runs on a healthy simulator,
which ends an inference that differs, and the model's results are compared with TensorFlow Lite's
reference kernels. A row says, per model, how many nodes the NPU computed, and by how much results
are off, or WRONG. Exits with 1 if anything was wrong, or stayed on the CPU without a reason.

Without ``--ways`` each deviation of docs/worse_chips.md in tasks of all kinds at once; ``--each``:
in one kind after the other; ``--pairs``: so many pairs by chance. Programs that boards without the
same features need are compiled once: they are kept in a folder of programs as option ``cache_dir``
has it, the board's record is not. ``--page FILE`` writes the page of deviations, and runs nothing.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from delegate.host.delegated import ReferenceModel
from tests.builds import build_standin
from tests.kernel.board import Board
from tests.kernel.evidence_runs import off, run
from tests.kernel.model_results import inputs_of
from tests.shared_folder import MODELS
from tests.worse import DEVIATIONS, chip_of

NAMES = (
    "mobilenet_v1_1.0_224_quant.tflite",
    "mobilenet_v2_1.0_224_int8_per_channel.tflite",
    "yolov8n_224_int8.tflite",
    "float/mediapipe_face_detection_short_range.tflite",
)
HEALTHY = "healthy"


Facts = dict[str, Any]


class Runs:
    """Runs ``model`` on worse chips; ``folder`` keeps programs and the reference's results."""

    def __init__(self, folder: Path, device: str, model: str) -> None:
        self._library = build_standin() / "libstandin_kernel.so"
        self._device = device
        self._model = model
        self._programs = folder / f"programs-{zlib.crc32(model.encode()):08x}"
        self._programs.mkdir()
        self._reference = self._programs / "reference.npz"
        plain = ReferenceModel.load(Path(model), reference_kernels=True)
        outputs = plain.run(inputs_of(plain.inputs))
        np.savez(self._reference, **{f"0 {i}": output for i, output in enumerate(outputs)})

    def of(self, way: str) -> Facts:
        """Return what a board whose chip is worse in this ``way`` made of the model."""
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
                self._model,
                device=self._device,
                broken="" if way == HEALTHY else chip_of(way),
                reference=str(self._reference),
                timeout_ms="3000",
                cache_dir=str(cache),
                float="fp16",
            )
            _link_programs(cache, self._programs)
            return {**found[self._model], "switched_off": sorted(off(board, cache))}


def _link_programs(source: Path, target: Path) -> None:
    for path in source.glob("*.rkc"):
        if not (target / path.name).exists():
            os.link(path, target / path.name)


def problems(row: dict[str, Any]) -> list[str]:
    """Return what is wrong with a row: an error, or nodes on the CPU without a reason."""
    found = [facts["error"] for facts in row["models"] if facts["error"]]
    for facts in row["models"]:
        if not facts["error"] and facts["delegated"] < facts["total"] and not facts["reasons"]:
            found.append(f"{facts['total'] - facts['delegated']} nodes left without a reason")
    return found


def text_of(row: dict[str, Any]) -> str:
    """The table's row."""
    cells = []
    for facts in row["models"]:
        if facts["error"]:
            cells.append(f"WRONG: {facts['error'][:80]}")
            continue
        differing = facts.get("differing")
        off = f", {differing:.2%} off by {facts['worst']:g}" if differing else ""
        cells.append(f"{facts['delegated']}{off}")
    names = {name for facts in row["models"] for name in facts["switched_off"]}
    lacking = ", ".join(f"`{name}`" for name in sorted(names))
    return f"| `{row['way']}` | {' | '.join(cells)} | {lacking} |"


def page_of() -> str:
    """The page of documentation: every deviation, and the kinds of tasks that can have it."""
    kinds: dict[tuple[str, str, str], list[str]] = {}
    for item in DEVIATIONS:
        kinds.setdefault((item.stage, item.way, item.what), []).append(item.kind)
    lines = [_PAGE.format(names=len(DEVIATIONS), ways=len(kinds))]
    stages = list(dict.fromkeys(item.stage for item in DEVIATIONS))
    for stage in stages:
        lines += [
            f"## `{stage}`: {STAGES[stage]}",
            "",
            "| way | such a task | kinds |",
            "| --- | --- | --- |",
        ]
        for (own, way, what), found in kinds.items():
            if own == stage:
                lines.append(f"| `{way}` | {what} | {_kinds_text(found)} |")
        lines.append("")
    return "\n".join(lines)


STAGES = {
    "task": "the task as a whole",
    "registers": "the groups of registers",
    "cores": "several cores, which the stand-in kernel plays",
    "cna": "reading features",
    "cbuf": "weights and what CBUF keeps",
    "core": "sums of products and of inputs",
    "bs": "BS and its operands",
    "bn": "BN and its operands",
    "main": "the main operand of the DPU alone",
    "ew": "EW and its operand",
    "table": "the lookup tables",
    "out": "OUT_CVT",
    "write": "what is written",
}
_SETS = (
    ("all but pooling", ("dense", "depthwise", "transposed", "alone", "fp16_dense",
                         "fp16_depthwise", "fp16_transposed", "fp16_alone")),
    ("int8", ("dense", "depthwise", "transposed", "alone")),
    ("fp16", ("fp16_dense", "fp16_depthwise", "fp16_transposed", "fp16_alone")),
    ("convolutions", ("dense", "depthwise", "transposed", "fp16_dense", "fp16_depthwise",
                      "fp16_transposed")),
    ("int8 convolutions", ("dense", "depthwise", "transposed")),
)  # fmt: skip


def _kinds_text(kinds: Sequence[str]) -> str:
    names = {members: name for name, members in _SETS}
    return names.get(tuple(kinds), ", ".join(f"`{kind}`" for kind in kinds))


_PAGE = """\
# Worse chips

Generated by `python -m tests.kernel.worse_chips --page docs/worse_chips.md`. Do not edit.

{ways} ways in which a chip can be worse than the simulator, in tasks of one kind each, which makes
{names} names `kind:stage:way`; names joined by commas make a chip with all of them
([how](simulator.md#a-worse-chip)). Some were reported, others might be. Kinds: `dense`, `depthwise`
and `transposed` convolutions (the last of pixels with zeros between them), the DPU `alone`, the
same in fp16 (`fp16_dense`, ...), `pooling`; `all`: whatever runs. `make worse-chips` runs whole
models on such chips.
"""


def head_of(models: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """The table's first two lines; each model with its number of nodes."""
    totals = [max(row["models"][i].get("total", 0) for row in rows) for i in range(len(models))]
    names = " | ".join(f"{Path(m).stem} ({n})" for m, n in zip(models, totals, strict=True))
    return f"| chip | {names} | switched off |\n| --- |" + " --- |" * (len(models) + 1)


def chosen_ways(each: bool, pairs: int) -> list[str]:
    """A healthy chip, and the worse ones that are asked for."""
    names = [item.name for item in DEVIATIONS]
    chance = random.Random(0)
    if pairs:
        return [HEALTHY, *(",".join(chance.sample(names, 2)) for _ in range(pairs))]
    if each:
        return [HEALTHY, *names]
    return [HEALTHY, *dict.fromkeys(f"{item.stage}:{item.way}" for item in DEVIATIONS)]


def rows_of(ways: Sequence[str], models: Sequence[Runs], jobs: int) -> list[Facts]:
    """Return a row for each of the ``ways``, and print it once it is known."""

    def note(way: str) -> Facts:
        row = {"way": way, "models": [model.of(way) for model in models]}
        print(text_of(row), file=sys.stderr, flush=True)
        return row

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(note, ways))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ways", nargs="*")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--device", default="rocket", choices=("rocket", "rknpu"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--page", type=Path)
    parser.add_argument("models", nargs="*", default=[str(MODELS / name) for name in NAMES])
    given = parser.parse_args()
    if given.page:
        given.page.write_text(page_of(), encoding="utf-8")
        return 0
    given.ways = given.ways or chosen_ways(given.each, given.pairs)
    with tempfile.TemporaryDirectory() as fresh:
        models = [Runs(Path(fresh), given.device, name) for name in given.models]
        chosen = rows_of(given.ways, models, given.jobs)
    print("\n".join([head_of(given.models, chosen), *map(text_of, chosen)]))
    wrong = {row["way"]: found for row in chosen if (found := problems(row))}
    print(json.dumps({"ways": len(chosen), "wrong": wrong}), file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
