"""YOLO heads whose rows come in several tensors: boxes, classes and mask weights apart, as some
exporters cut the last concatenation off.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from delegate.host.delegation import plural
from rk3588_vision.detection.candidate import PARTS_FIT, Candidate, Outputs, class_score
from rk3588_vision.detection.head import Rows
from rk3588_vision.detection.masks import MASK_WEIGHTS, prototypes_in
from rk3588_vision.detection.row_candidates import cells_of
from rk3588_vision.detection.yolo_rows import Part, RowsHead

_BOX = 4


def split_candidates(outputs: Outputs) -> Iterator[Candidate]:
    """Yield the heads whose columns the outputs can be."""
    tensors = outputs.tensors
    maps = [i for i, output in enumerate(tensors) if len(output.shape) == 4]
    if len(tensors) - len(maps) != 2 + len(maps) or len(maps) > 1:
        return
    found = [column for i in range(len(tensors)) if i not in maps for column in _column(outputs, i)]
    if len(found) != len(tensors) - len(maps):
        return
    prototypes = prototypes_in(maps[0], tensors[maps[0]]) if maps else None
    if maps and prototypes is None:
        return
    for box, classes, *weights in permutations(found):
        is_weights = all(column.channels == MASK_WEIGHTS for column in weights)
        if box.channels != _BOX or not is_weights:
            continue
        parts = {Part.BOX: _BOX, Part.CLASSES: classes.channels}
        parts |= {Part.WEIGHTS: MASK_WEIGHTS} if maps else {}
        name, size = "yolov8-seg" if maps else "yolov8", (outputs.input_h, outputs.input_w)
        head = RowsHead(name, *size, (box, classes, *weights), parts, prototypes)
        score, reasons = class_score(head.classes, outputs.hints)
        what = f"boxes, {plural(head.classes, 'class')}{' and weights of masks' * bool(maps)} apart"
        yield Candidate(head, what, score + PARTS_FIT, (*reasons, "a tensor each"))


def _column(outputs: Outputs, index: int) -> Iterator[Rows]:
    """Yield the output as a column, if it has a row per cell of YOLO's grids."""
    output = outputs.tensors[index]
    if len(output.shape) != 3 or output.shape[0] != 1:
        return
    rows = cells_of(outputs.input_h, outputs.input_w).values()
    if output.shape[1] in rows:
        yield Rows(index, output, output.shape[2], False)
    elif output.shape[2] in rows:
        yield Rows(index, output, output.shape[1], True)
