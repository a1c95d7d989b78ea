"""YOLO heads whose rows are boxes: v8/v11, v5, YOLOX and the NMS-free ones, in one tensor.

All give boxes in pixels of the model's input. Exporters write boxes as pixels or as shares of the
input; a tensor whose range ends at about 1 holds shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from delegate.vision.detection.boxes import Detections, Floats, best_classes, from_centres
from delegate.vision.detection.head import OutputTensor, as_probability
from delegate.vision.detection.placement import Fit, Preparation

YOLO_PREPARATION = Preparation(Fit.LETTERBOX, 0.0, 255.0)
# Darknet trains with letter_box=0, which stretches, and its users' programs do the same.
DARKNET_PREPARATION = Preparation(Fit.STRETCH, 0.0, 255.0)
YOLOX_PREPARATION = Preparation(Fit.CORNER, 0.0, 1.0, is_bgr=True)

# Boxes as shares may reach over the edge, but no model predicts them twice as large as the picture;
# boxes in pixels of a useful model are far larger than 2.
_LARGEST_SHARE = 2.0
# log(width / stride): e^7 strides are more than 8000 pixels, so larger numbers are pixels.
_LARGEST_LOGARITHM = 7.0


def to_pixels(values: Floats, output: OutputTensor, input_h: int, input_w: int) -> Floats:
    """Pairs of x and y (or width and height) [..., 2 k] in pixels of the input, where the model may
    give them as shares of it.
    """
    highest = output.highest if output.highest is not None else float(values.max(initial=0.0))
    if highest > _LARGEST_SHARE:
        return values
    pixels: Floats = values * np.tile([input_w, input_h], values.shape[-1] // 2)
    return pixels


@dataclass(frozen=True, slots=True)
class RowsHead:
    """One tensor with a row per box: [1, n, channels], or [1, channels, n] (``channels_first``)."""

    name: ClassVar[str]
    preparation: ClassVar[Preparation] = YOLO_PREPARATION
    needs_suppression: ClassVar[bool] = True
    box_channels: ClassVar[int] = 5
    """Of a row, those in front of the classes' scores."""

    input_h: int
    input_w: int
    output: OutputTensor
    channels_first: bool

    @property
    def classes(self) -> int:
        return self.output.shape[1 if self.channels_first else 2] - self.box_channels

    def rows(self, outputs: Sequence[Floats]) -> Floats:
        """[n, channels]"""
        rows: Floats = outputs[0][0].T if self.channels_first else outputs[0][0]
        return rows

    def pixels(self, rows: Floats) -> Floats:
        """The corners of boxes whose centres and sizes rows begin with."""
        return to_pixels(from_centres(rows[:, :4]), self.output, self.input_h, self.input_w)


@dataclass(frozen=True, slots=True)
class YoloV8Head(RowsHead):
    """v8, v9, v11 and relatives: per cell a box (centre, size) and a probability per class."""

    name: ClassVar[str] = "yolov8"
    box_channels: ClassVar[int] = 4

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = self.rows(outputs)
        return best_classes(self.pixels(rows), rows[:, 4:], threshold)


@dataclass(frozen=True, slots=True)
class YoloV5Head(RowsHead):
    """v5 and v7: per anchor a box (centre, size), objectness and a probability per class."""

    name: ClassVar[str] = "yolov5"

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = self.rows(outputs)
        return best_classes(self.pixels(rows), rows[:, 4:5] * rows[:, 5:], threshold)


@dataclass(frozen=True, slots=True)
class YoloXHead(RowsHead):
    """YOLOX: per cell offsets and logarithms of sizes, in strides; objectness and classes.

    Models exported with the decoding inside give pixels instead, which their size tells.
    """

    name: ClassVar[str] = "yolox"
    preparation: ClassVar[Preparation] = YOLOX_PREPARATION

    strides: tuple[int, ...]

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = self.rows(outputs)
        highest = self.output.highest
        if highest is None:
            highest = float(rows[:, 2:4].max(initial=0.0))
        boxes = rows[:, :4]
        if highest <= _LARGEST_LOGARITHM:
            boxes = decode_yolox(boxes, self.strides, self.input_h, self.input_w)
        scores = as_probability(rows[:, 4:])
        return best_classes(from_centres(boxes), scores[:, :1] * scores[:, 1:], threshold)


def cells(strides: Sequence[int], input_h: int, input_w: int) -> tuple[Floats, Floats]:
    """Column and row [n, 2] of every cell of all grids, and the stride of each [n, 1]."""
    places, sizes = [], []
    for stride in strides:
        h, w = input_h // stride, input_w // stride
        y, x = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
        places.append(np.stack([x, y], axis=-1).reshape(-1, 2))
        sizes.append(np.full((h * w, 1), float(stride)))
    return np.concatenate(places).astype(np.float64), np.concatenate(sizes)


def decode_yolox(boxes: Floats, strides: Sequence[int], input_h: int, input_w: int) -> Floats:
    """Offsets and logarithms [n, 4] as centres and sizes in pixels."""
    places, sizes = cells(strides, input_h, input_w)
    centres = (boxes[:, :2] + places) * sizes
    return np.concatenate([centres, np.exp(boxes[:, 2:4]) * sizes], axis=1)


@dataclass(frozen=True, slots=True)
class EndToEndHead:
    """v10 and models exported with suppression inside: rows (x1, y1, x2, y2, score, class)."""

    input_h: int
    input_w: int
    output: OutputTensor
    name: str = "end-to-end"
    preparation: Preparation = YOLO_PREPARATION
    needs_suppression: bool = False
    classes: int | None = None

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = outputs[0][0]
        boxes = to_pixels(rows[:, :4], self.output, self.input_h, self.input_w)
        return Detections(boxes, rows[:, 5].astype(np.int64), rows[:, 4]).above(threshold)
