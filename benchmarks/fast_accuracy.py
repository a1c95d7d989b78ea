"""Accuracy of ``numerics=auto`` beside exact numerics, on pictures and on the same pictures shaken.

    python -m benchmarks.fast_accuracy MODEL FOLDER [--labels L --truth-labels L] [--draws 24]

A few hundred pictures hold some that are next to a tie of two classes or boxes, and every change of
an inference decides those anew: one number of each side tells little of their difference. Here
every draw adds -1, 0 or 1 to every value of every picture, both sides get the same pictures, and
the mean difference over the draws has a standard error. Runs on the simulator.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delegate.cli.command import natural_number  # noqa: E402
from delegate.cli.table import format_table  # noqa: E402
from delegate.errors import UsageError  # noqa: E402
from delegate.host.delegated import DelegatedModel  # noqa: E402
from delegate.progress import progress  # noqa: E402
from rk3588_vision.class_ranking import read_label_lines  # noqa: E402
from rk3588_vision.detection.candidate import Hints  # noqa: E402
from rk3588_vision.evaluation import ground_truth, metrics  # noqa: E402
from rk3588_vision.evaluation.evaluator import Evaluator, Record, Spec  # noqa: E402
from rk3588_vision.images import find_images  # noqa: E402
from tools.script import (  # noqa: E402
    ScriptParser,
    existing_file,
    existing_folder,
    run_script,
)

# The sides of a record, as ``metrics`` names them in its result.
SIDES = {"ours": ("auto", "delegate"), "theirs": ("exact", "cpu")}
BACKGROUND = 1


class Shaken(DelegatedModel):
    """Adds -1, 0 or 1 to every number it is given; the same to the same numbers. 0: nothing."""

    draw = 0

    def run(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        return super().run([self._shaken(array) for array in inputs])

    def _shaken(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not np.issubdtype(array.dtype, np.integer):
            raise UsageError(f"the model takes {array.dtype}: give a quantised one")
        if self.draw == 0:
            return array
        rng = np.random.default_rng([self.draw, zlib.crc32(array.tobytes())])
        limits = np.iinfo(array.dtype)
        moved = array.astype(np.int64) + rng.integers(-1, 2, array.shape)
        return moved.clip(limits.min, limits.max).astype(array.dtype)


Judge = Callable[[Sequence[Record]], dict[str, Any]]


def judge_of(chosen: argparse.Namespace, paths: list[Path]) -> tuple[int | None, Judge]:
    """Classes of the model, None where it says so itself, and what makes numbers of records."""
    if chosen.task == "classify":
        answers = ground_truth.classes_of(paths, None)
        return None, lambda records: metrics.classification_metrics(records, answers, BACKGROUND)
    labels = None if chosen.labels is None else read_label_lines(chosen.labels)
    truth = None if chosen.truth_labels is None else read_label_lines(chosen.truth_labels)
    objects, mapping = ground_truth.objects_of(paths, None), ground_truth.class_map(labels, truth)
    known = None if labels is None else len(labels)
    return known, lambda records: metrics.detection_metrics(records, objects, mapping, known)


def evaluators(model: Path, task: str, classes: int | None) -> dict[str, Evaluator]:
    """The model on both sides."""
    digest, hints = hashlib.sha256(model.read_bytes()).hexdigest(), Hints(classes=classes)
    found = {}
    for side, (numerics, _) in SIDES.items():
        options = (("device", "simulator"), ("numerics", numerics))
        spec = Spec(task, digest, options, with_cpu=False, reference_kernels=False, hints=hints)
        found[side] = Evaluator(model, spec, Shaken)
    return found


def records_of(
    sides: dict[str, Evaluator], pictures: list[tuple[str, bytes]], draw: int
) -> list[Record]:
    """Return the records of every picture in a draw, both sides."""
    records: list[Record] = []
    for name, content in pictures:
        record: Record = {}
        for side, evaluator in sides.items():
            shaken = evaluator.model
            assert isinstance(shaken, Shaken)
            shaken.draw = draw
            found = evaluator.evaluate(name, content)
            record = found | record | {side: found["ours"]}
        records.append(record)
    return records


def main(arguments: list[str] | None = None) -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("model", type=existing_file, metavar="MODEL")
    parser.add_argument("folder", type=existing_folder, metavar="FOLDER")
    parser.add_argument("--task", choices=("classify", "detect"), default="classify")
    parser.add_argument("--labels", type=existing_file, help="the detector's classes by name")
    parser.add_argument("--truth-labels", type=existing_file, help="the truth's classes by name")
    parser.add_argument(
        "--draws", type=natural_number, default=24, help="of shaken pictures (default 24)"
    )
    chosen = parser.parse_args(arguments)
    paths = find_images(chosen.folder)
    classes, judge = judge_of(chosen, paths)
    sides = evaluators(chosen.model, chosen.task, classes)
    pictures = [(path.name, path.read_bytes()) for path in paths]
    number = "top1" if chosen.task == "classify" else "ap"
    values: list[list[float]] = []
    with progress("shaking", chosen.draws + 1) as bar:
        for draw in range(chosen.draws + 1):
            found = judge(records_of(sides, pictures, draw))
            values.append([found[name][number] for _, name in SIDES.values()])
            bar.advance()
    differences = [fast - exact for fast, exact in values]
    rows = [("the pictures", *(f"{v:.4f}" for v in values[0]), f"{differences[0]:+.4f}", "")]
    if chosen.draws > 1:
        means = [statistics.fmean(column) for column in zip(*values[1:], strict=True)]
        shaken = differences[1:]
        error = statistics.stdev(shaken) / len(shaken) ** 0.5
        rows.append((
            f"shaken, mean of {len(shaken)}", *(f"{v:.4f}" for v in means),
            f"{statistics.fmean(shaken):+.4f}", f"{error:.4f}",
        ))  # fmt: skip
    print(format_table((number, "auto", "exact", "difference", "error"), rows, right=range(1, 5)))
    return 0


if __name__ == "__main__":
    run_script(main)
