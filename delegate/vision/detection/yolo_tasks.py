"""YOLO heads that tell more than boxes: masks, key points and boxes that lie aslant.

Rows of v8 and v11: a box (centre, size), a probability per class, then what the task adds. Rows of
YOLOv5-face: a box, objectness, five points, a probability per class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from delegate.vision.detection.boxes import (
    Detections,
    Floats,
    around,
    best_classes,
    from_centres,
    outlines_of,
)
from delegate.vision.detection.head import OutputTensor
from delegate.vision.detection.masks import mask_in_box
from delegate.vision.detection.placement import Placement
from delegate.vision.detection.yolo import RowsHead, to_pixels

MASK_WEIGHTS = 32
"""Prototypes of v8's and v11's segmentation heads (``nm`` of their Segment layer)."""

POINT_VALUES = 3
"""Of a key point: x, y, and how likely it is to be seen."""

FACE_POINTS = 5
"""Eyes, nose and corners of the mouth, of which YOLOv5-face gives x and y."""


@dataclass(frozen=True, slots=True)
class SegmentHead(RowsHead):
    """Each row ends with ``MASK_WEIGHTS`` weights; a second output holds as many prototypes of
    masks, [1, h, w, m] or, with ``prototypes_first``, [1, m, h, w]. A mask is where the weighted
    sum of prototypes is positive (the sigmoid above one half), inside the box.
    """

    name: ClassVar[str] = "yolov8-seg"
    box_channels: ClassVar[int] = 4 + MASK_WEIGHTS

    rows_at: int
    prototypes_first: bool

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = self.rows([outputs[self.rows_at]])
        boxes, scores = rows[:, :4], rows[:, 4:-MASK_WEIGHTS]
        pixels = from_centres(to_pixels(boxes, self._box_range(), self.input_h, self.input_w))
        return best_classes(pixels, scores, threshold, weights=rows[:, -MASK_WEIGHTS:])

    def _box_range(self) -> OutputTensor:
        # The weights share the tensor, and their range says nothing about the boxes'.
        return replace(self.output, lowest=None, highest=None)

    def with_masks(
        self, found: Detections, outputs: Sequence[Floats], placement: Placement
    ) -> Detections:
        """``found``, in pixels of the picture, with its masks."""
        assert found.weights is not None
        prototypes = outputs[1 - self.rows_at][0]
        if not self.prototypes_first:
            prototypes = np.moveaxis(prototypes, -1, 0)
        size = self.input_h, self.input_w
        masks = [
            mask_in_box(np.tensordot(weights, prototypes, axes=1), box, placement, size)
            for weights, box in zip(found.weights, found.boxes, strict=True)
        ]
        return replace(found, masks=tuple(masks))


@dataclass(frozen=True, slots=True)
class PoseHead(RowsHead):
    """Each row ends with key points of three values; ``class_count`` classes in front of them."""

    name: ClassVar[str] = "yolov8-pose"

    class_count: int = 1

    @property
    def classes(self) -> int:
        return self.class_count

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = self.rows(outputs)
        begin = 4 + self.class_count
        points = rows[:, begin:].reshape(len(rows), -1, POINT_VALUES).copy()
        places = points[:, :, :2].reshape(len(rows), -1)
        pixels = to_pixels(places, self.output, self.input_h, self.input_w)
        points[:, :, :2] = pixels.reshape(len(rows), -1, 2)
        return best_classes(self.pixels(rows), rows[:, 4:begin], threshold, points=points)


@dataclass(frozen=True, slots=True)
class OrientedHead(RowsHead):
    """Each row ends with the angle of its box, in radians from the x axis towards the y axis."""

    name: ClassVar[str] = "yolov8-obb"
    box_channels: ClassVar[int] = 5

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = self.rows(outputs)
        # An angle is below 3/4 pi, and shares the tensor with boxes that may be shares.
        highest = self.output.highest
        kind = self.output if highest is not None and highest > np.pi else None
        unknown = replace(self.output, lowest=None, highest=None)
        centres = to_pixels(rows[:, :4], kind or unknown, self.input_h, self.input_w)
        outlines = outlines_of(centres, rows[:, -1])
        return best_classes(around(outlines), rows[:, 4:-1], threshold, outlines=outlines)


@dataclass(frozen=True, slots=True)
class YoloV5FaceHead(RowsHead):
    """YOLOv5-face: per anchor a box, objectness, five points and a probability per class."""

    name: ClassVar[str] = "yolov5-face"
    box_channels: ClassVar[int] = 5 + 2 * FACE_POINTS

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = self.rows(outputs)
        scores = rows[:, 4:5] * rows[:, self.box_channels :]
        places = to_pixels(
            rows[:, 5 : self.box_channels], self.output, self.input_h, self.input_w
        ).reshape(len(rows), FACE_POINTS, 2)
        points = np.concatenate([places, np.ones((len(rows), FACE_POINTS, 1))], axis=2)
        return best_classes(self.pixels(rows), scores, threshold, points=points)
