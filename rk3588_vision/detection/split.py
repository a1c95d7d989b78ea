"""YOLO heads whose rows come in several tensors: boxes, classes and mask weights apart, as some
exporters cut the last concatenation off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np

from delegate.host.delegation import plural
from rk3588_vision.detection.boxes import Detections, Floats
from rk3588_vision.detection.candidate import PARTS_FIT, Candidate, Outputs, class_score
from rk3588_vision.detection.head import OutputTensor, as_probability
from rk3588_vision.detection.masks import MASK_WEIGHTS
from rk3588_vision.detection.row_candidates import cells_of
from rk3588_vision.detection.yolo import YOLO_PREPARATION
from rk3588_vision.detection.yolo_rows import Part, RowsHead, SegmentHead
from rk3588_vision.placement import Placement, Preparation

_BOX = 4


@dataclass(frozen=True, slots=True)
class Column:
    """One tensor of the rows, [1, n, channels] or, ``first``, [1, channels, n]; ``at``: its place
    among the outputs.
    """

    at: int
    output: OutputTensor
    channels: int
    first: bool

    def rows(self, outputs: Sequence[Floats]) -> Floats:
        """Return the values [n, channels]."""
        rows: Floats = outputs[self.at][0].T if self.first else outputs[self.at][0]
        return rows


@dataclass(frozen=True, slots=True)
class SplitHead:
    """Columns of boxes, classes and, with ``prototypes``, weights of masks. ``joined`` decodes the
    rows that they make together.
    """

    needs_suppression: ClassVar[bool] = True
    preparation: ClassVar[Preparation] = YOLO_PREPARATION

    joined: RowsHead
    columns: tuple[Column, ...]
    prototypes: int | None = None

    @property
    def name(self) -> str:
        return self.joined.name

    @property
    def classes(self) -> int:
        return self.joined.classes

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        return self.joined.decode([self._rows(outputs)], threshold)

    def with_masks(
        self, found: Detections, outputs: Sequence[Floats], placement: Placement
    ) -> Detections:
        """Return ``found``, in pixels of the picture, with its masks if the model has any."""
        if self.prototypes is None:
            return found
        assert isinstance(self.joined, SegmentHead)
        return self.joined.with_masks(found, [outputs[0], outputs[self.prototypes]], placement)

    def _rows(self, outputs: Sequence[Floats]) -> Floats:
        boxes, classes, *weights = (column.rows(outputs) for column in self.columns)
        scores = as_probability(classes, self.columns[1].output)
        rows: Floats = np.concatenate([boxes, scores, *weights], axis=1)[np.newaxis]
        return rows


def split_candidates(outputs: Outputs) -> Iterator[Candidate]:
    """Yield the heads whose columns the outputs can be."""
    tensors = outputs.tensors
    maps = [i for i, output in enumerate(tensors) if len(output.shape) == 4]
    if len(tensors) - len(maps) != 2 + len(maps) or len(maps) > 1:
        return
    found = [column for i in range(len(tensors)) if i not in maps for column in _column(outputs, i)]
    if len(found) != len(tensors) - len(maps):
        return
    for box, classes, *weights in permutations(found):
        is_weights = all(column.channels == MASK_WEIGHTS for column in weights)
        if box.channels != _BOX or not is_weights:
            continue
        head = _head(outputs, (box, classes, *weights), maps)
        if head is None:
            continue
        score, reasons = class_score(head.classes, outputs.hints)
        what = f"boxes, {plural(head.classes, 'class')}{' and weights of masks' * bool(maps)} apart"
        yield Candidate(head, what, score + PARTS_FIT, (*reasons, "a tensor each"))


def _column(outputs: Outputs, index: int) -> Iterator[Column]:
    """Yield the output as a column, if it has a row per cell of YOLO's grids."""
    output = outputs.tensors[index]
    if len(output.shape) != 3 or output.shape[0] != 1:
        return
    rows = cells_of(outputs.input_h, outputs.input_w).values()
    if output.shape[1] in rows:
        yield Column(index, output, output.shape[2], False)
    elif output.shape[2] in rows:
        yield Column(index, output, output.shape[1], True)


def _head(outputs: Outputs, columns: tuple[Column, ...], maps: Sequence[int]) -> SplitHead | None:
    parts = {Part.BOX: _BOX, Part.CLASSES: columns[1].channels}
    size = outputs.input_h, outputs.input_w
    if not maps:
        what = ("yolov8", *size, columns[0].output, False, parts)
        return SplitHead(RowsHead(*what), columns)
    shape = outputs.tensors[maps[0]].shape
    if MASK_WEIGHTS not in (shape[1], shape[3]):
        return None
    parts[Part.WEIGHTS] = MASK_WEIGHTS
    what = ("yolov8-seg", *size, columns[0].output, False, parts)
    joined = SegmentHead(*what, prototypes_first=shape[3] != MASK_WEIGHTS)
    return SplitHead(joined, columns, maps[0])
