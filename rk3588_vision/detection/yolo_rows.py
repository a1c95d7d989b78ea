"""YOLO heads with a row per box: v8 and v11, v5 and v7, YOLOX, and those that tell more than boxes
(masks, key points, boxes that lie aslant). A row is described by its parts. And what all YOLO heads
share: boxes in pixels of the model's input, where exporters write pixels or shares of it.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rk3588_vision.detection.boxes import (
    Detections,
    Floats,
    around,
    best_classes,
    cells,
    from_centres,
    outlines_of,
)
from rk3588_vision.detection.candidate import COCO_POINTS
from rk3588_vision.detection.head import (
    Head,
    OutputTensor,
    Rows,
    as_probability,
)
from rk3588_vision.placement import Fit, Preparation

YOLO_PREPARATION = Preparation(Fit.LETTERBOX, 0.0, 255.0)
# Darknet trains with letter_box=0, which stretches, and its users' programs do the same.
DARKNET_PREPARATION = Preparation(Fit.STRETCH, 0.0, 255.0)
YOLOX_PREPARATION = Preparation(Fit.CORNER, 0.0, 1.0, is_bgr=True)

# Boxes as shares may reach over the edge, but no model predicts them twice as large as the picture;
# boxes in pixels of a useful model are far larger than 2.
_LARGEST_SHARE = 2.0


def to_pixels(values: Floats, output: OutputTensor, input_h: int, input_w: int) -> Floats:
    """Pairs of x and y (or width and height) [..., 2 k] in pixels of the input, where the model may
    give them as shares of it.
    """
    highest = output.highest if output.highest is not None else float(values.max(initial=0.0))
    if highest > _LARGEST_SHARE:
        return values
    pixels: Floats = values * np.tile([input_w, input_h], values.shape[-1] // 2)
    return pixels


def decode_yolox(boxes: Floats, strides: Sequence[int], input_h: int, input_w: int) -> Floats:
    """Offsets and logarithms [n, 4] as centres and sizes in pixels."""
    places, sizes = cells(strides, input_h, input_w)
    centres = (boxes[:, :2] + places) * sizes
    return np.concatenate([centres, np.exp(boxes[:, 2:4]) * sizes], axis=1)


@dataclass(frozen=True, slots=True)
class EndToEndHead(Head):
    """v10 and models exported with suppression inside: rows (x1, y1, x2, y2, score, class)."""

    name = "end-to-end"
    preparation = YOLO_PREPARATION

    output: OutputTensor

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = outputs[0][0]
        boxes = to_pixels(rows[:, :4], self.output, self.input_h, self.input_w)
        return Detections(boxes, rows[:, 5].astype(np.int64), rows[:, 4]).above(threshold)


# log(width / stride): e^7 strides are more than 8000 pixels, so larger numbers are pixels.
_LARGEST_LOGARITHM = 7.0


class Part(enum.Enum):
    """A part that a row may hold, with its name in messages; a value of the enumeration per channel
    or several.
    """

    BOX = "a box"
    """Centre x, centre y, width, height."""
    OBJECTNESS = "objectness"
    CLASSES = "class"
    """A probability each."""
    POINTS = "key point"
    """The values of a point: x, y, and how likely it is to be seen."""
    PLACES = "point"
    """The values of a point: x and y alone."""
    WEIGHTS = "mask weight"
    ANGLE = "an angle"
    """The angle of the box, in radians from the x axis towards the y axis."""


POINT_VALUES = {Part.POINTS: 3, Part.PLACES: 2}
"""Channels of one point."""

Parts = Mapping[Part, int]
"""The parts of a row in order, the box first, with their channels."""


@dataclass(frozen=True, slots=True)
class RowsHead(Head):
    """A row per box, in one tensor or, as some exporters cut the last concatenation off, in one for
    each part, boxes and classes first. ``prototypes``: of as many masks as rows have weights.
    """

    needs_suppression = True
    preparation = YOLO_PREPARATION

    decoder: str
    sources: tuple[Rows, ...]
    parts: Parts
    prototypes: Rows | None = None

    @property
    def name(self) -> str:
        return self.decoder

    @property
    def output(self) -> OutputTensor:
        """Return the tensor that has the boxes."""
        return self.sources[0].output

    @property
    def classes(self) -> int:
        return self.parts[Part.CLASSES]

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Return what models with such points find; None where nothing says it."""
        if self.classes == 1 and Part.PLACES in self.parts:
            return ("face",)
        person = self.parts.get(Part.POINTS) == COCO_POINTS * POINT_VALUES[Part.POINTS]
        return ("person",) if self.classes == 1 and person else None

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        columns = [source.of(outputs) for source in self.sources]
        if len(columns) > 1:
            columns[1] = as_probability(columns[1], self.sources[1].output)
        rows, ends = np.concatenate(columns, axis=1), np.cumsum([*self.parts.values()])[:-1]
        part = dict(zip(self.parts, np.split(rows, ends, axis=1), strict=True))
        boxes, outlines = self._corners(part[Part.BOX]), None
        if Part.ANGLE in part:
            centres = self._pixels(part[Part.BOX], self._range_of_boxes())
            outlines = outlines_of(centres, part[Part.ANGLE][:, 0])
            boxes = around(outlines)
        scores, points = self._scores(part), self._points(part)
        weights = part.get(Part.WEIGHTS)
        return best_classes(
            boxes, scores, threshold, points=points, outlines=outlines, weights=weights
        )

    def _scores(self, part: Mapping[Part, Floats]) -> Floats:
        scores: Floats = part[Part.CLASSES] * part.get(Part.OBJECTNESS, 1.0)
        return scores

    def _corners(self, boxes: Floats) -> Floats:
        return self._pixels(from_centres(boxes), self._range_of_boxes())

    def _points(self, part: Mapping[Part, Floats]) -> Floats | None:
        kind = next((kind for kind in POINT_VALUES if kind in part), None)
        if kind is None:
            return None
        points = part[kind].reshape(len(part[kind]), -1, POINT_VALUES[kind])
        sure = points[:, :, 2:] if kind is Part.POINTS else np.ones((*points.shape[:2], 1))
        return np.concatenate([self._pixels(points[:, :, :2], self.output), sure], axis=2)

    def _pixels(self, values: Floats, kind: OutputTensor) -> Floats:
        return to_pixels(values, kind, self.input_h, self.input_w)

    def _range_of_boxes(self) -> OutputTensor:
        """The output without its range where that says nothing about boxes: weights share the
        tensor, or an angle does, which is below 3/4 pi, with boxes that may be shares.
        """
        highest = self.output.highest
        is_of_angle = Part.ANGLE in self.parts and highest is not None and highest <= np.pi
        if is_of_angle or Part.WEIGHTS in self.parts:
            return replace(self.output, lowest=None, highest=None)
        return self.output


@dataclass(frozen=True, slots=True)
class YoloXHead(RowsHead):
    """YOLOX: boxes are offsets and logarithms of sizes, in strides.

    Models exported with the decoding inside give pixels instead, which their size tells.
    """

    preparation = YOLOX_PREPARATION

    strides: tuple[int, ...] = ()

    def _corners(self, boxes: Floats) -> Floats:
        highest = self.output.highest
        if highest is None:
            highest = float(boxes[:, 2:].max(initial=0.0))
        if highest <= _LARGEST_LOGARITHM:
            boxes = decode_yolox(boxes, self.strides, self.input_h, self.input_w)
        return from_centres(boxes)

    def _scores(self, part: Mapping[Part, Floats]) -> Floats:
        both = np.concatenate([part[Part.OBJECTNESS], part[Part.CLASSES]], axis=1)
        likely = as_probability(both)
        return likely[:, :1] * likely[:, 1:]
