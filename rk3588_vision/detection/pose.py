"""Key points of people: MoveNet, one or several people, and PoseNet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rk3588_vision.detection.boxes import Detections, Floats, around
from rk3588_vision.detection.candidate import COCO_POINTS, USUAL, Candidate, Outputs
from rk3588_vision.detection.head import Head, OutputTensor, as_probability
from rk3588_vision.images import FLOAT_MEAN, FLOAT_STD
from rk3588_vision.placement import Fit, Preparation

_VALUES: Final = 3
"""The values of a point: y, x and how sure."""
_PERSON_VALUES: Final = COCO_POINTS * _VALUES + 5
"""The values of a person in MoveNet for several: its points, the box and the score."""
_SEEN: Final = 0.2
"""The least score of a point that counts for the box around a person."""


class _PersonHead(Head):
    __slots__ = ()
    classes = 1
    class_names = ("person",)


@dataclass(frozen=True, slots=True)
class MoveNetHead(_PersonHead):
    """The 17 key points of one person as y, x (shares of the input) and how sure [..., 17, 3]."""

    name = "movenet"
    preparation = Preparation(Fit.LETTERBOX, 0.0, 1.0, border=0)

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        points = _in_pixels(outputs[0].reshape(1, COCO_POINTS, _VALUES), self.input_h, self.input_w)
        return _people(points, points[:, :, 2].mean(axis=1)).above(threshold)


@dataclass(frozen=True, slots=True)
class MultiPoseHead(_PersonHead):
    """Rows of one person each: 17 points as in ``MoveNetHead``, the box as y1, x1, y2, x2, and the
    score [1, people, 56].
    """

    name = "movenet-multipose"
    preparation = Preparation(Fit.LETTERBOX, 0.0, 1.0, border=0)

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = outputs[0][0]
        points = rows[:, : COCO_POINTS * _VALUES].reshape(-1, COCO_POINTS, _VALUES)
        boxes = rows[:, [-4, -5, -2, -3]] * ([self.input_w, self.input_h] * 2)
        moved = _in_pixels(points, self.input_h, self.input_w)
        found = Detections(boxes, np.zeros(len(rows), np.int64), rows[:, -1], moved)
        return found.above(threshold)


@dataclass(frozen=True, slots=True)
class PoseNetHead(_PersonHead):
    """PoseNet read for one person: of each point the cell of the heat map [1, h, w, 17] where it is
    likeliest, and from there the offset in pixels [1, h, w, 34], all y before all x.
    """

    name = "posenet"
    preparation = Preparation(Fit.STRETCH, FLOAT_MEAN, FLOAT_STD)
    heat: int
    offsets: int
    heat_output: OutputTensor

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        # Logits, unless their own range says that they are shares.
        heat = as_probability(outputs[self.heat][0], self.heat_output)
        h, w, _ = heat.shape
        rows, columns = np.unravel_index(heat.reshape(-1, COCO_POINTS).argmax(axis=0), (h, w))
        offsets = outputs[self.offsets][0][rows, columns]
        point = np.arange(COCO_POINTS)
        y = rows * ((self.input_h - 1) / max(h - 1, 1)) + offsets[point, point]
        x = columns * ((self.input_w - 1) / max(w - 1, 1)) + offsets[point, point + COCO_POINTS]
        points = np.stack([x, y, heat[rows, columns, point]], axis=1)[np.newaxis]
        return _people(points, points[:, :, 2].mean(axis=1)).above(threshold)


def pose_candidates(outputs: Outputs) -> Iterator[Candidate]:
    """Yield the heads of key points that the outputs' shapes can be of."""
    size = outputs.input_h, outputs.input_w
    shapes = [output.shape for output in outputs.tensors]
    if len(shapes) == 1:
        shape = shapes[0]
        if shape[-2:] == (COCO_POINTS, _VALUES) and set(shape[:-2]) <= {1}:
            yield Candidate(MoveNetHead(*size), "17 key points of a person", USUAL)
        if len(shape) == 3 and shape[0] == 1 and shape[2] == _PERSON_VALUES:
            yield Candidate(MultiPoseHead(*size), "people with 17 key points", USUAL)
    for heat, shape in enumerate(shapes):
        if len(shape) != 4 or shape[0] != 1 or shape[3] != COCO_POINTS:
            continue
        pair = (*shape[:3], 2 * COCO_POINTS)
        if pair in shapes:
            head = PoseNetHead(*size, heat, shapes.index(pair), outputs.tensors[heat])
            yield Candidate(head, "heat maps and offsets of 17 key points", USUAL)


def _in_pixels(points: Floats, input_h: int, input_w: int) -> Floats:
    """Return points of y, x and how sure as x and y in pixels of the input, and how sure."""
    return points[:, :, [1, 0, 2]] * [input_w, input_h, 1.0]


def _people(points: Floats, scores: Floats) -> Detections:
    """Return people with the boxes around the points that are seen."""
    boxes = np.zeros((len(points), 4))
    for number, person in enumerate(points):
        seen = person[person[:, 2] >= min(_SEEN, person[:, 2].max())]
        boxes[number] = around(seen[np.newaxis, :, :2])[0]
    return Detections(boxes, np.zeros(len(points), np.int64), scores, points)
