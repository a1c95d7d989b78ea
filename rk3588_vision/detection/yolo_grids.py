"""YOLO heads cut before the decoding: one tensor, or a few, per grid of cells.

NHWC or NCHW, quantised or float, with or without the sigmoid at the end.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rk3588_vision.class_ranking import softmax
from rk3588_vision.detection.boxes import Detections, Floats, best_classes, cells, from_centres
from rk3588_vision.detection.head import (
    Anchors,
    Head,
    OutputTensor,
    Rows,
    as_probability,
    sigmoid,
)
from rk3588_vision.detection.yolo_rows import (
    DARKNET_PREPARATION,
    YOLO_PREPARATION,
    YOLOX_PREPARATION,
    decode_yolox,
)
from rk3588_vision.placement import Fit, Preparation

DFL_BINS = 16
"""Bins of the distribution that v8 predicts for each side of a box."""


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
"""The anchors of v5 models trained on COCO, three per grid, small objects first."""

_STRETCHED = Preparation(Fit.STRETCH, 0.0, 255.0)

ANCHOR_FAMILIES = (
    AnchorFamily("yolov5-grids", "YOLOv5 of COCO", 3, YOLOV5_ANCHORS, YOLO_PREPARATION, is_v5=True),
    # "anchors" in cfg/deploy/yolov7.yaml of its authors' repository (WongKinYiu/yolov7).
    AnchorFamily(
        "yolov7-grids", "YOLOv7 of COCO", 3,
        (
            (12, 16), (19, 36), (40, 28), (36, 75), (76, 55), (72, 146), (142, 110), (192, 243),
            (459, 401),
        ),
        YOLO_PREPARATION, is_v5=True,
    ),
    # "anchors" in yolo-fastest-1.1.cfg of its authors' repository (dog-qiuqiu/Yolo-Fastest,
    # ModelZoo/yolo-fastest-1.1_coco).
    AnchorFamily(
        "yolo-fastest", "Yolo-Fastest 1.1 of COCO", 2,
        ((12, 18), (37, 49), (52, 132), (115, 73), (119, 199), (242, 238)),
        DARKNET_PREPARATION, published_for=320,
    ),
    # Its person detector on COCO, for 160 x 160 (HimaxSmartSensing/Yolo-Fastest): anchor2 and
    # anchor1 of COCO_DATASET in the maker's example (HimaxWiseEyePlus/WE_I_Plus_User_Examples,
    # HIMAX_Yolo_Fastest_Person_Detection_Example/yolo_fastest/main_functions.cc).
    AnchorFamily(
        "yolo-fastest-person", "Himax's person detector by Yolo-Fastest", 2,
        ((4, 9), (10, 25), (23, 49), (32, 93), (62, 106), (113, 132)),
        DARKNET_PREPARATION, published_for=160,
    ),
    # "anchors" in yolov3-tiny.cfg of pjreddie/darknet, for 416 x 416.
    AnchorFamily(
        "yolov3-tiny", "YOLOv3-tiny of COCO", 2,
        ((10, 14), (23, 27), (37, 58), (81, 82), (135, 169), (344, 319)), DARKNET_PREPARATION,
    ),
    # "yolo_anchors" of st_yoloxn and st_yolo_lc_v1 in STMicroelectronics/stm32ai-modelzoo, shares
    # of the input.
    AnchorFamily(
        "st-yolox", "STMicroelectronics' st_yolo_x", 3, ((0.5, 0.5), (0.07, 0.25), (0.23, 0.7)),
        _STRETCHED, published_for=1, softmax=True, repeats=True,
    ),
    AnchorFamily(
        "st-yolo-lc", "STMicroelectronics' st_yolo_lc", 1,
        (
            (0.0252, 0.06), (0.0772, 0.1829), (0.1696, 0.4167), (0.3339, 0.6559),
            (0.7226, 0.7348),
        ),
        _STRETCHED, published_for=1, softmax=True,
    ),
)  # fmt: skip


def group_by_stride(outputs: Sequence[Rows]) -> dict[int, list[Rows]]:
    """The outputs of every grid, finest grid first."""
    grids: dict[int, list[Rows]] = {}
    for output in sorted(outputs, key=lambda output: output.stride):
        grids.setdefault(output.stride, []).append(output)
    return grids


@dataclass(frozen=True, slots=True)
class _GridHead(Head):
    """``outputs``: one or several of every grid."""

    needs_suppression = True
    box_channels = 4

    outputs: tuple[Rows, ...]

    @property
    def grids(self) -> dict[int, list[Rows]]:
        """The outputs of every grid by its stride, finest grid first."""
        return group_by_stride(self.outputs)

    @property
    def per_cell(self) -> int:
        """Boxes of a cell."""
        return 1

    @property
    def channels(self) -> int:
        """Return the channels of a box, in all outputs of its grid."""
        members = next(iter(self.grids.values()))
        return sum(output.channels for output in members) // self.per_cell

    @property
    def classes(self) -> int:
        return self.channels - 5

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        return best_classes(*self._boxes(outputs), threshold)

    def _boxes(self, outputs: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return the boxes of all grids [n, 4] and the scores of their classes [n, classes]."""
        boxes, scores = [], []
        for stride, members in self.grids.items():
            where, likely = self._parts(members, outputs)
            boxes.append(self._corners(where, stride, members[0].output))
            scores.append(self._scores(likely))
        return np.concatenate(boxes), np.concatenate(scores)

    def _parts(self, members: Sequence[Rows], outputs: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return what tells where the boxes of a grid are [n, box_channels], and the probabilities
        of each [n, ...], that of objectness first.
        """
        if len(members) == 1:
            rows = members[0].of(outputs).reshape(-1, self.channels)
            where, rest = np.split(rows, [self.box_channels], axis=1)
            return where, self._likely(rest, members[0].output)
        box = next(member for member in members if member.channels == self.box_channels)
        others = [member for member in members if member is not box]
        others.sort(key=lambda member: member.channels != 1)
        likely = [as_probability(member.of(outputs), member.output) for member in others]
        return box.of(outputs), np.concatenate(likely, axis=1)

    def _likely(self, values: Floats, output: OutputTensor) -> Floats:
        """Probabilities in a tensor with boxes, whose range says nothing about them."""
        return as_probability(values)

    def _scores(self, likely: Floats) -> Floats:
        return likely[:, :1] * likely[:, 1:]

    @abstractmethod
    def _corners(self, where: Floats, stride: int, output: OutputTensor) -> Floats:
        """The boxes of a grid [n, 4] in pixels of the input."""


@dataclass(frozen=True, slots=True)
class AnchorGridHead(_GridHead):
    """The head with a box, objectness and classes per cell and anchor: v2 to v5, v7 and
    relatives.
    """

    anchors: Anchors
    family: AnchorFamily

    @property
    def name(self) -> str:
        return self.family.name

    @property
    def preparation(self) -> Preparation:
        return self.family.preparation

    @property
    def per_cell(self) -> int:
        return len(self.anchors) // len(self.grids)

    def _likely(self, values: Floats, output: OutputTensor) -> Floats:
        if self.family.softmax:
            return np.concatenate([sigmoid(values[:, :1]), softmax(values[:, 1:])], axis=1)
        return as_probability(values, output)

    def _corners(self, where: Floats, stride: int, output: OutputTensor) -> Floats:
        first = list(self.grids).index(stride) * self.per_cell
        places = np.repeat(cells((stride,), self.input_h, self.input_w)[0], self.per_cell, axis=0)
        anchors = np.resize(self.anchors[first : first + self.per_cell], places.shape)
        if self.family.is_v5:
            shares = 2.0 * as_probability(where, output)
            centres, sizes = shares[:, :2] - 0.5 + places, shares[:, 2:] ** 2
        else:
            centres = as_probability(where[:, :2], output) + places
            sizes = np.exp(where[:, 2:])
        return from_centres(np.concatenate([centres * stride, sizes * anchors], axis=1))


@dataclass(frozen=True, slots=True)
class DflGridHead(_GridHead):
    """v8 and v11: per cell 16 bins for each side of the box, and a score per class.

    Boxes and classes in one tensor per grid (bins first), or in one each; a third one of one
    channel holds the sum of the classes' scores, which says nothing more. Of segmentation heads
    there are one more output per grid with the ``weights`` of masks, and a map of ``prototypes``
    that is finer than all grids.
    """

    preparation = YOLO_PREPARATION
    box_channels = 4 * DFL_BINS

    weights: tuple[Rows, ...] = ()
    prototypes: Rows | None = None

    @property
    def name(self) -> str:
        return "yolov8-seg-grids" if self.weights else "yolov8-grids"

    @property
    def classes(self) -> int:
        has_sum = len(self.outputs) == 3 * len(self.grids)
        return self.channels - self.box_channels - has_sum

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        ordered = sorted(self.weights, key=lambda output: output.stride)
        weights = np.concatenate([w.of(outputs) for w in ordered]) if ordered else None
        return best_classes(*self._boxes(outputs), threshold, weights=weights)

    def _scores(self, likely: Floats) -> Floats:
        return likely[:, -self.classes :]

    def _corners(self, where: Floats, stride: int, output: OutputTensor) -> Floats:
        sides = softmax(where.reshape(-1, 4, DFL_BINS)) @ np.arange(DFL_BINS)  # in strides
        centres = cells((stride,), self.input_h, self.input_w)[0] + 0.5
        corners: Floats = np.concatenate([centres - sides[:, :2], centres + sides[:, 2:]], axis=1)
        return stride * corners


@dataclass(frozen=True, slots=True)
class YoloXGridHead(_GridHead):
    """YOLOX: per grid one tensor of 5 + classes channels, or box, objectness and classes apart."""

    name = "yolox-grids"
    preparation = YOLOX_PREPARATION

    def _corners(self, where: Floats, stride: int, output: OutputTensor) -> Floats:
        return from_centres(decode_yolox(where, (stride,), self.input_h, self.input_w))
