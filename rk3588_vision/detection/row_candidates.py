"""Heads with a row per box, by the shapes of their outputs and what the graph joins in a row; and
those whose rows come in several tensors: boxes, classes and mask weights apart, as some exporters
cut the last concatenation off.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, permutations, product

from delegate.host.delegation import plural
from rk3588_vision.detection.candidate import (
    COCO_POINTS,
    PARTS_FIT,
    USUAL,
    Candidate,
    Hints,
    Outputs,
    boundaries,
    class_score,
)
from rk3588_vision.detection.head import MASK_WEIGHTS, Rows, prototypes_in
from rk3588_vision.detection.yolo_rows import (
    POINT_VALUES,
    EndToEndHead,
    Part,
    Parts,
    RowsHead,
    YoloXHead,
)

_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (8, 16), (16, 32), (32,))
_CELL, _ANCHOR = 1, 3
"""Rows of a cell: one, or one per anchor."""
_END_TO_END_COLUMNS = 6
_LEAST_LOGARITHM = -1.0
"""Sizes, probabilities and centres inside the picture are not below 0; logarithms of sizes are."""

_FACE_POINTS = 5
"""Eyes, nose and corners of the mouth, of which YOLOv5-face gives x and y."""
_CHANNELS = {
    Part.BOX: 4,
    Part.OBJECTNESS: 1,
    Part.PLACES: _FACE_POINTS * POINT_VALUES[Part.PLACES],
    Part.WEIGHTS: MASK_WEIGHTS,
    Part.ANGLE: 1,
}
"""The channels of parts whose number does not depend on the model."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The parts of a row of a decoder's models, in order, and the joints of their graphs: between
    which parts, counted from 1, they may be. ``per_cell``: rows of a cell.
    """

    name: str
    per_cell: int
    parts: tuple[Part, ...]
    joints: tuple[tuple[int, ...], ...]


_LAYOUTS = (
    _Layout("yolov8", _CELL, (Part.BOX, Part.CLASSES), ((1,),)),
    _Layout("yolox", _CELL, (Part.BOX, Part.OBJECTNESS, Part.CLASSES), ((1, 2), (1,))),
    _Layout("yolov8-pose", _CELL, (Part.BOX, Part.CLASSES, Part.POINTS), ((1, 2), (2,))),
    _Layout("yolov8-obb", _CELL, (Part.BOX, Part.CLASSES, Part.ANGLE), ((1, 2), (2,))),
    _Layout("yolov8-seg", _CELL, (Part.BOX, Part.CLASSES, Part.WEIGHTS), ((1, 2), (2,))),
    _Layout("yolov5", _ANCHOR, (Part.BOX, Part.OBJECTNESS, Part.CLASSES), ((1,), (1, 2), ())),
    # Its graphs join boxes and points like those of yolov5 join boxes.
    _Layout(
        "yolov5-face",
        _ANCHOR,
        (Part.BOX, Part.OBJECTNESS, Part.PLACES, Part.CLASSES),
        ((1,), (1, 2), (), (1, 2, 3)),
    ),
)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One output read as rows."""

    rows: Rows
    strides: tuple[int, ...]
    per_cell: int
    cuts: frozenset[int]
    """The channels at which the graph joins parts; empty where it does not say."""

    @property
    def has_logarithms(self) -> bool:
        lowest = self.rows.output.lowest
        return lowest is not None and lowest < _LEAST_LOGARITHM


def row_candidates(outputs: Outputs) -> Iterator[Candidate]:
    """Every head of rows that the outputs can be of."""
    for reading in _readings(outputs):
        for layout in _LAYOUTS:
            with_masks = Part.WEIGHTS in layout.parts
            if layout.per_cell == reading.per_cell and len(outputs.tensors) == 1 + with_masks:
                yield from _candidate(outputs, reading, layout)
    output = outputs.tensors[0]
    if len(outputs.tensors) == 1 and output.shape[2:] == (_END_TO_END_COLUMNS,):
        head = EndToEndHead(outputs.input_h, outputs.input_w, output)
        yield Candidate(head, "boxes, scores and classes after suppression", 0)


def _readings(outputs: Outputs) -> Iterator[_Reading]:
    h, w = outputs.input_h, outputs.input_w
    cells = {strides: sum((h // s) * (w // s) for s in strides) for strides in _STRIDES}
    for index, output in enumerate(outputs.tensors):
        if len(output.shape) != 3 or output.shape[0] != 1:
            continue
        for axis, per_cell in product((1, 2), (_CELL, _ANCHOR)):
            n, channels = output.shape[axis], output.shape[3 - axis]
            strides = next((s for s in _STRIDES if n == cells[s] * per_cell), None)
            if strides is not None:
                cuts = boundaries(outputs.parts(index, channels))
                yield _Reading(Rows(index, output, channels, axis == 2), strides, per_cell, cuts)


def _candidate(outputs: Outputs, reading: _Reading, layout: _Layout) -> Iterator[Candidate]:
    """The candidate, unless rows of that many channels cannot have the layout or the outputs speak
    against it.
    """
    hints = outputs.hints
    parts = _parts(layout, reading.rows.channels, hints)
    head = _head(outputs, reading, layout, parts) if parts is not None else None
    if parts is None or head is None:
        return
    if hints.decoder != layout.name and not _is_told(layout, reading, head.classes):
        return
    score, reasons = class_score(head.classes, hints)
    usual = _usual(layout, reading, parts)
    if usual:
        score, reasons = score + USUAL, (usual, *reasons)
    if reading.cuts:
        ends = list(accumulate(parts.values()))
        # A box may be joined from its centre and its size.
        fits = reading.cuts - {2} in [{ends[place - 1] for place in each} for each in layout.joints]
        if not fits and hints.decoder is None:
            return
        score, reasons = score + PARTS_FIT, (*reasons, "the graph joins such parts")
    *first, last = (_words(part, channels) for part, channels in parts.items())
    per = "cell" if layout.per_cell == _CELL else "anchor"
    yield Candidate(head, f"{', '.join(first)} and {last} per {per}", score, reasons)


def _parts(layout: _Layout, channels: int, hints: Hints) -> Parts | None:
    """The parts of a row with their channels; None where so many channels have no such parts."""
    known = {part: _CHANNELS.get(part, 0) for part in layout.parts}
    rest = channels - sum(known.values())
    known[Part.CLASSES] = rest
    if Part.POINTS in known:
        # Several classes only where the decoder is named: too many shapes would fit.
        known[Part.CLASSES] = hints.classes or 1 if hints.decoder is not None else 1
        known[Part.POINTS] = rest - known[Part.CLASSES]
    is_whole = all(known.get(part, 0) % size == 0 for part, size in POINT_VALUES.items())
    return known if is_whole and min(known.values()) > 0 else None


def _head(outputs: Outputs, reading: _Reading, layout: _Layout, parts: Parts) -> RowsHead | None:
    """The head; None where an output that belongs to it is missing."""
    what = (outputs.input_h, outputs.input_w, layout.name, (reading.rows,), parts)
    if layout.name == "yolox":
        return YoloXHead(*what, strides=reading.strides)
    if Part.WEIGHTS not in parts:
        return RowsHead(*what)
    other = 1 - reading.rows.index
    prototypes = prototypes_in(other, outputs.tensors[other])
    return None if prototypes is None else RowsHead(*what, prototypes)


def _is_told(layout: _Layout, reading: _Reading, classes: int) -> bool:
    """Return whether the outputs show this layout where nobody names it."""
    return {
        "yolov8": not reading.has_logarithms,
        "yolox": not reading.rows.channels_first,  # it is exported with the cells first
        "yolov8-obb": reading.rows.channels - 1
        in reading.cuts,  # an angle looks like one more class
        "yolov5-face": classes == 1,
    }.get(layout.name, True)


def _usual(layout: _Layout, reading: _Reading, parts: Parts) -> str | None:
    """Return a sign that such models usually have; None: there is none."""
    if layout.name == "yolox" and reading.has_logarithms:
        return "logarithms of sizes"
    is_person = parts[Part.CLASSES] == 1
    if is_person and parts.get(Part.POINTS) == COCO_POINTS * POINT_VALUES[Part.POINTS]:
        return "COCO's key points"
    return None


def _words(part: Part, channels: int) -> str:
    if part in (Part.BOX, Part.OBJECTNESS, Part.ANGLE):
        return str(part.value)
    return plural(channels // POINT_VALUES.get(part, 1), part.value)


def split_candidates(outputs: Outputs) -> Iterator[Candidate]:
    """Yield the heads whose columns the outputs can be."""
    tensors = outputs.tensors
    maps = [i for i, output in enumerate(tensors) if len(output.shape) == 4]
    if len(tensors) - len(maps) != 2 + len(maps) or len(maps) > 1:
        return
    first: dict[int, Rows] = {}
    for reading in _readings(outputs):
        if reading.per_cell == _CELL:
            first.setdefault(reading.rows.index, reading.rows)
    found = [*first.values()]
    if len(found) != len(tensors) - len(maps):
        return
    prototypes = prototypes_in(maps[0], tensors[maps[0]]) if maps else None
    if maps and prototypes is None:
        return
    for box, classes, *weights in permutations(found):
        is_weights = all(column.channels == MASK_WEIGHTS for column in weights)
        if box.channels != _CHANNELS[Part.BOX] or not is_weights:
            continue
        parts = {Part.BOX: box.channels, Part.CLASSES: classes.channels}
        parts |= {Part.WEIGHTS: MASK_WEIGHTS} if maps else {}
        name, size = "yolov8-seg" if maps else "yolov8", (outputs.input_h, outputs.input_w)
        head = RowsHead(*size, name, (box, classes, *weights), parts, prototypes)
        score, reasons = class_score(head.classes, outputs.hints)
        what = f"boxes, {plural(head.classes, 'class')}{' and weights of masks' * bool(maps)} apart"
        yield Candidate(head, what, score + PARTS_FIT, (*reasons, "a tensor each"))
