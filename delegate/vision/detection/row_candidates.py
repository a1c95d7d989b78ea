"""Heads with a row per box, by the shapes of their outputs and what the graph joins in a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from delegate.vision.detection.candidate import (
    COCO_POINTS,
    PARTS_FIT,
    USUAL,
    Candidate,
    Outputs,
    class_score,
)
from delegate.vision.detection.head import Head, OutputTensor
from delegate.vision.detection.output_parts import boundaries, output_parts
from delegate.vision.detection.yolo import EndToEndHead, YoloV5Head, YoloV8Head, YoloXHead
from delegate.vision.detection.yolo_tasks import (
    FACE_POINTS,
    MASK_WEIGHTS,
    POINT_VALUES,
    OrientedHead,
    PoseHead,
    SegmentHead,
    YoloV5FaceHead,
)

_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (8, 16), (16, 32), (32,))
_ANCHORS_PER_CELL = 3
_END_TO_END_COLUMNS = 6
_LEAST_LOGARITHM = -1.0
"""Sizes, probabilities and centres inside the picture are not below 0; logarithms of sizes are."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """One output read as rows: ``n`` of them, of ``channels``."""

    index: int
    output: OutputTensor
    n: int
    channels: int
    channels_first: bool
    strides: tuple[int, ...]
    per_cell: int
    cuts: frozenset[int]
    """Where the graph joins the channels; empty where it does not say."""


def row_candidates(outputs: Outputs) -> Iterator[Candidate]:
    """Every head of rows that the outputs can be of."""
    for rows in _readings(outputs):
        if len(outputs.tensors) == 1 and rows.per_cell == 1:
            yield from _boxes(outputs, rows)
            yield from _tasks(outputs, rows)
        elif len(outputs.tensors) == 1:
            yield from _anchored(outputs, rows)
        else:
            yield from _segments(outputs, rows)
    output = outputs.tensors[0]
    if len(outputs.tensors) == 1 and output.shape[2:] == (_END_TO_END_COLUMNS,):
        head = EndToEndHead(outputs.input_h, outputs.input_w, output)
        yield Candidate(head, "boxes, scores and classes after suppression", 0)


def _readings(outputs: Outputs) -> Iterator[_Rows]:
    seen = set()
    for index, output in enumerate(outputs.tensors):
        if len(output.shape) != 3 or output.shape[0] != 1:
            continue
        for strides in _STRIDES:
            cells = sum((outputs.input_h // s) * (outputs.input_w // s) for s in strides)
            for axis in (1, 2):
                n, channels = output.shape[axis], output.shape[3 - axis]
                for per_cell in (1, _ANCHORS_PER_CELL):
                    key = (index, axis, per_cell)
                    if n == cells * per_cell and channels >= 5 and key not in seen:
                        seen.add(key)
                        cuts = boundaries(_parts(outputs, index, channels))
                        yield _Rows(index, output, n, channels, axis == 2, strides, per_cell, cuts)


def _parts(outputs: Outputs, index: int, channels: int) -> tuple[int, ...]:
    if index >= len(outputs.graph.outputs):
        return ()
    return output_parts(outputs.graph, outputs.graph.outputs[index], channels)


def _candidate(
    outputs: Outputs,
    rows: _Rows,
    head: Head,
    reading: str,
    cuts: tuple[frozenset[int], ...],
    *,
    bonus: int = 0,
    why: tuple[str, ...] = (),
) -> Iterator[Candidate]:
    """The candidate unless the graph joins other parts than one of ``cuts`` (a box may be joined
    from its centre and its size).
    """
    score, reasons = bonus, why
    if head.classes is not None:
        more, about = class_score(head.classes, outputs.hints)
        score, reasons = score + more, (*reasons, *about)
    if rows.cuts:
        fits = any(wanted and wanted <= rows.cuts <= wanted | {2} for wanted in cuts)
        whole = rows.cuts <= {2} and frozenset() in cuts
        if not fits and not whole and outputs.hints.decoder is None:
            return
        score += PARTS_FIT
        reasons = (*reasons, "the graph joins such parts")
    yield Candidate(head, reading, score, reasons)


def _boxes(outputs: Outputs, rows: _Rows) -> Iterator[Candidate]:
    size = (outputs.input_h, outputs.input_w)
    has_logarithms = rows.output.lowest is not None and rows.output.lowest < _LEAST_LOGARITHM
    is_named = outputs.hints.decoder is not None
    if not has_logarithms or is_named:
        yield from _candidate(
            outputs, rows, YoloV8Head(*size, rows.output, rows.channels_first),
            f"a box and {rows.channels - 4} classes per cell", (frozenset({4}),),
        )  # fmt: skip
    # YOLOX is exported with the cells first.
    if rows.channels > 5 and (not rows.channels_first or is_named):
        yield from _candidate(
            outputs, rows, YoloXHead(*size, rows.output, rows.channels_first, rows.strides),
            f"a box, objectness and {rows.channels - 5} classes per cell",
            (frozenset({4, 5}), frozenset({4})),
            bonus=USUAL if has_logarithms else 0,
            why=("logarithms of sizes",) if has_logarithms else (),
        )  # fmt: skip


def _tasks(outputs: Outputs, rows: _Rows) -> Iterator[Candidate]:
    size = (outputs.input_h, outputs.input_w)
    is_named = outputs.hints.decoder is not None
    # Several classes with key points only where the decoder is named: too many shapes would fit.
    classes = outputs.hints.classes if is_named and outputs.hints.classes else 1
    points, rest = divmod(rows.channels - 4 - classes, POINT_VALUES)
    if points > 0 and not rest:
        is_usual = points == COCO_POINTS and classes == 1
        yield from _candidate(
            outputs, rows, PoseHead(*size, rows.output, rows.channels_first, classes),
            f"a box, {classes} class and {points} key points per cell",
            (frozenset({4, 4 + classes}), frozenset({4 + classes})),
            bonus=USUAL if is_usual else 0, why=("COCO's key points",) if is_usual else (),
        )  # fmt: skip
    # An angle per row is told by the graph alone: it looks like one more class.
    last = rows.channels - 1
    if rows.channels > 5 and (last in rows.cuts or outputs.hints.decoder == OrientedHead.name):
        yield from _candidate(
            outputs, rows, OrientedHead(*size, rows.output, rows.channels_first),
            f"a box, {rows.channels - 5} classes and an angle per cell",
            (frozenset({4, last}), frozenset({last})),
        )  # fmt: skip


def _anchored(outputs: Outputs, rows: _Rows) -> Iterator[Candidate]:
    size = (outputs.input_h, outputs.input_w)
    if rows.channels > 5:
        yield from _candidate(
            outputs, rows, YoloV5Head(*size, rows.output, rows.channels_first),
            f"a box, objectness and {rows.channels - 5} classes per anchor",
            (frozenset({4}), frozenset({4, 5}), frozenset()),
        )  # fmt: skip
    face = 5 + 2 * FACE_POINTS
    if rows.channels > face:
        is_usual = rows.channels == face + 1
        # The parts of a row say nothing here: it joins boxes and points like a v5 joins boxes.
        yield from _candidate(
            outputs, rows, YoloV5FaceHead(*size, rows.output, rows.channels_first),
            f"a box, objectness, {FACE_POINTS} points and {rows.channels - face} classes per "
            "anchor",
            (frozenset({4}), frozenset({4, 5}), frozenset(), frozenset({4, 5, face})),
        ) if is_usual or outputs.hints.decoder == YoloV5FaceHead.name else iter(())  # fmt: skip


def _segments(outputs: Outputs, rows: _Rows) -> Iterator[Candidate]:
    if len(outputs.tensors) != 2 or rows.per_cell != 1:
        return
    shape = outputs.tensors[1 - rows.index].shape
    if len(shape) != 4 or shape[0] != 1 or MASK_WEIGHTS not in (shape[1], shape[3]):
        return
    classes = rows.channels - 4 - MASK_WEIGHTS
    if classes < 1:
        return
    head = SegmentHead(
        outputs.input_h, outputs.input_w, rows.output, rows.channels_first, rows.index,
        shape[3] != MASK_WEIGHTS,
    )  # fmt: skip
    yield from _candidate(
        outputs, rows, head, f"a box, {classes} classes and {MASK_WEIGHTS} weights of masks",
        (frozenset({4, 4 + classes}), frozenset({4 + classes})),
    )  # fmt: skip
