"""YOLO heads cut before the decoding: one tensor, or a few, per grid of cells.

NHWC or NCHW, quantised or float, with or without the sigmoid at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from delegate.vision.detection.boxes import Detections, Floats, best_classes, from_centres
from delegate.vision.detection.head import OutputTensor, as_probability, sigmoid
from delegate.vision.detection.placement import Fit, Preparation
from delegate.vision.detection.yolo import (
    DARKNET_PREPARATION,
    YOLO_PREPARATION,
    YOLOX_PREPARATION,
    cells,
    decode_yolox,
)

DFL_BINS = 16
"""Bins of the distribution that v8 predicts for each side of a box."""

Anchors = tuple[tuple[float, float], ...]
"""(width, height) in pixels of the model's input."""


@dataclass(frozen=True, slots=True)
class AnchorFamily:
    """Models whose grids hold (box, objectness, classes) for some anchors, with the anchors that
    were published for an input of ``published_for`` pixels (None: pixels of any input), all grids'
    or, with ``repeats``, those of each grid.

    ``is_v5``: offsets of 2 sigmoid - 0.5 and sizes of (2 sigmoid)^2 anchors instead of sigmoid and
    e^t. ``softmax``: classes are shares of one, not each by itself.
    """

    name: str
    what: str
    grids: int
    anchors: Anchors
    preparation: Preparation
    published_for: float | None = None
    is_v5: bool = False
    softmax: bool = False
    repeats: bool = False

    def anchors_for(self, input_h: int, input_w: int) -> Anchors:
        """The published anchors in pixels of this input, those of all grids."""
        anchors = self.anchors * (self.grids if self.repeats else 1)
        if self.published_for is None:
            return anchors
        y, x = input_h / self.published_for, input_w / self.published_for
        return tuple((w * x, h * y) for w, h in anchors)


YOLOV5_ANCHORS: Anchors = (
    (10, 13), (16, 30), (33, 23),
    (30, 61), (62, 45), (59, 119),
    (116, 90), (156, 198), (373, 326),
)  # fmt: skip
"""Of the v5 models trained on COCO, three per grid, small objects first."""

_STRETCHED = Preparation(Fit.STRETCH, 0.0, 255.0)

ANCHOR_FAMILIES = (
    AnchorFamily(
        "yolov5-grids", "YOLOv5 of COCO", 3, YOLOV5_ANCHORS, YOLO_PREPARATION, is_v5=True
    ),
    # "anchors" in cfg/deploy/yolov7.yaml of its authors' repository (WongKinYiu/yolov7).
    AnchorFamily(
        "yolov7-grids",
        "YOLOv7 of COCO",
        3,
        (
            (12, 16), (19, 36), (40, 28),
            (36, 75), (76, 55), (72, 146),
            (142, 110), (192, 243), (459, 401),
        ),
        YOLO_PREPARATION,
        is_v5=True,
    ),
    # "anchors" in yolo-fastest-1.1.cfg of its authors' repository (dog-qiuqiu/Yolo-Fastest,
    # ModelZoo/yolo-fastest-1.1_coco).
    AnchorFamily(
        "yolo-fastest",
        "Yolo-Fastest 1.1 of COCO",
        2,
        ((12, 18), (37, 49), (52, 132), (115, 73), (119, 199), (242, 238)),
        DARKNET_PREPARATION,
        published_for=320,
    ),
    # Its person detector on COCO, for 160 x 160 (HimaxSmartSensing/Yolo-Fastest): anchor2 and
    # anchor1 of COCO_DATASET in the maker's example (HimaxWiseEyePlus/WE_I_Plus_User_Examples,
    # HIMAX_Yolo_Fastest_Person_Detection_Example/yolo_fastest/main_functions.cc).
    AnchorFamily(
        "yolo-fastest-person",
        "Himax's person detector by Yolo-Fastest",
        2,
        ((4, 9), (10, 25), (23, 49), (32, 93), (62, 106), (113, 132)),
        DARKNET_PREPARATION,
        published_for=160,
    ),
    # "anchors" in yolov3-tiny.cfg of pjreddie/darknet, for 416 x 416.
    AnchorFamily(
        "yolov3-tiny",
        "YOLOv3-tiny of COCO",
        2,
        ((10, 14), (23, 27), (37, 58), (81, 82), (135, 169), (344, 319)),
        DARKNET_PREPARATION,
    ),
    # "yolo_anchors" of st_yoloxn and st_yolo_lc_v1 in STMicroelectronics/stm32ai-modelzoo, shares
    # of the input.
    AnchorFamily(
        "st-yolox",
        "STMicroelectronics' st_yolo_x",
        3,
        ((0.5, 0.5), (0.07, 0.25), (0.23, 0.7)),
        _STRETCHED,
        published_for=1,
        softmax=True,
        repeats=True,
    ),
    AnchorFamily(
        "st-yolo-lc",
        "STMicroelectronics' st_yolo_lc",
        1,
        (
            (0.0252, 0.06), (0.0772, 0.1829), (0.1696, 0.4167), (0.3339, 0.6559),
            (0.7226, 0.7348),
        ),
        _STRETCHED,
        published_for=1,
        softmax=True,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GridOutput:
    """One output that holds ``channels`` values per cell of a grid."""

    index: int
    output: OutputTensor
    stride: int
    channels: int
    channels_first: bool

    def rows(self, outputs: Sequence[Floats]) -> Floats:
        """[cells, channels], row by row of the grid."""
        values = outputs[self.index][0]
        if self.channels_first:
            values = np.moveaxis(values, 0, -1)
        rows: Floats = values.reshape(-1, self.channels)
        return rows


def group_by_stride(outputs: Sequence[GridOutput]) -> dict[int, list[GridOutput]]:
    """The outputs of every grid, finest grid first."""
    grids: dict[int, list[GridOutput]] = {}
    for output in sorted(outputs, key=lambda output: output.stride):
        grids.setdefault(output.stride, []).append(output)
    return grids


@dataclass(frozen=True, slots=True)
class _GridHead:
    """``outputs``: one or several of every grid."""

    needs_suppression: ClassVar[bool] = True

    input_h: int
    input_w: int
    outputs: tuple[GridOutput, ...]

    @property
    def grids(self) -> dict[int, list[GridOutput]]:
        """The outputs of every grid by its stride, finest grid first."""
        return group_by_stride(self.outputs)

    def places(self, stride: int) -> Floats:
        """Column and row [n, 2] of every cell of a grid."""
        return cells((stride,), self.input_h, self.input_w)[0]


@dataclass(frozen=True, slots=True)
class AnchorGridHead(_GridHead):
    """Per cell and anchor a box, objectness and classes: v2 to v5, v7 and relatives."""

    anchors: Anchors
    family: AnchorFamily

    @property
    def name(self) -> str:
        return self.family.name

    @property
    def preparation(self) -> Preparation:
        return self.family.preparation

    @property
    def classes(self) -> int:
        return self.outputs[0].channels // (len(self.anchors) // len(self.grids)) - 5

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        boxes, scores = [], []
        per_cell = len(self.anchors) // len(self.grids)
        for number, (stride, members) in enumerate(self.grids.items()):
            grid = members[0]
            anchors = np.array(self.anchors[number * per_cell : (number + 1) * per_cell])
            values = grid.rows(outputs).reshape(-1, per_cell, grid.channels // per_cell)
            places = self.places(stride)[:, np.newaxis]
            centres, sizes = self._boxes(values[:, :, :4], places, grid.output)
            pixels = np.concatenate([centres * stride, sizes * anchors], axis=2)
            boxes.append(from_centres(pixels.reshape(-1, 4)))
            scores.append(self._scores(values[:, :, 4:].reshape(-1, values.shape[2] - 4), grid))
        return best_classes(np.concatenate(boxes), np.concatenate(scores), threshold)

    def _scores(self, values: Floats, grid: GridOutput) -> Floats:
        if not self.family.softmax:
            likely = as_probability(values, grid.output)
            return likely[:, :1] * likely[:, 1:]
        powers = np.exp(values[:, 1:] - values[:, 1:].max(axis=1, keepdims=True))
        result: Floats = sigmoid(values[:, :1]) * powers / powers.sum(axis=1, keepdims=True)
        return result

    def _boxes(self, values: Floats, places: Floats, output: OutputTensor) -> tuple[Floats, Floats]:
        if self.family.is_v5:
            shares = as_probability(values, output)
            return 2.0 * shares[:, :, :2] - 0.5 + places, (2.0 * shares[:, :, 2:4]) ** 2
        return as_probability(values[:, :, :2], output) + places, np.exp(values[:, :, 2:4])


@dataclass(frozen=True, slots=True)
class DflGridHead(_GridHead):
    """v8 and v11: per cell 16 bins for each side of the box, and a score per class.

    Boxes and classes in one tensor per grid (bins first), or in one each.
    """

    name: ClassVar[str] = "yolov8-grids"
    preparation: ClassVar[Preparation] = YOLO_PREPARATION

    @property
    def classes(self) -> int:
        if len(self.outputs) == len(self.grids):
            return self.outputs[0].channels - 4 * DFL_BINS
        return next(
            grid.channels for grid in self.outputs if grid.channels not in (1, 4 * DFL_BINS)
        )

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        boxes, scores = [], []
        for stride, members in self.grids.items():
            bins, likely = self._split(members, outputs)
            sides = _expected_bin(bins)
            places = self.places(stride)
            corners = np.concatenate([places + 0.5 - sides[:, :2], places + 0.5 + sides[:, 2:]], 1)
            boxes.append(corners * stride)
            scores.append(likely)
        return best_classes(np.concatenate(boxes), np.concatenate(scores), threshold)

    def _split(
        self, members: Sequence[GridOutput], outputs: Sequence[Floats]
    ) -> tuple[Floats, Floats]:
        if len(members) == 1:
            rows = members[0].rows(outputs)
            return rows[:, : 4 * DFL_BINS], as_probability(rows[:, 4 * DFL_BINS :])
        bins = next(m for m in members if m.channels == 4 * DFL_BINS)
        classes = next(m for m in members if m is not bins and m.channels == self.classes)
        return bins.rows(outputs), as_probability(classes.rows(outputs), classes.output)


def _expected_bin(bins: Floats) -> Floats:
    """[n, 64] scores of bins as [n, 4] distances, in strides."""
    shaped = bins.reshape(-1, 4, DFL_BINS)
    weights = np.exp(shaped - shaped.max(axis=2, keepdims=True))
    distances: Floats = (weights @ np.arange(DFL_BINS)) / weights.sum(axis=2)
    return distances


@dataclass(frozen=True, slots=True)
class YoloXGridHead(_GridHead):
    """YOLOX: per grid one tensor of 5 + classes channels, or box, objectness and classes apart."""

    name: ClassVar[str] = "yolox-grids"
    preparation: ClassVar[Preparation] = YOLOX_PREPARATION

    @property
    def classes(self) -> int:
        channels = {grid.channels for grid in self.outputs}
        return max(channels) if len(channels) > 1 else channels.pop() - 5

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        boxes, scores = [], []
        for stride, members in self.grids.items():
            if len(members) == 1:
                rows = members[0].rows(outputs)
                box, likely = rows[:, :4], as_probability(rows[:, 4:])
            else:
                by_channels = sorted(members, key=lambda m: (m.channels != 4, m.channels != 1))
                box = by_channels[0].rows(outputs)
                likely = np.concatenate(
                    [as_probability(m.rows(outputs), m.output) for m in by_channels[1:]], axis=1
                )
            boxes.append(decode_yolox(box, (stride,), self.input_h, self.input_w))
            scores.append(likely[:, :1] * likely[:, 1:])
        return best_classes(from_centres(np.concatenate(boxes)), np.concatenate(scores), threshold)
