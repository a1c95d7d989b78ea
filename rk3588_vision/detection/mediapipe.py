"""MediaPipe's detectors of faces, palms and people, boxes with key points around fixed anchors; and
its models that look at one hand, or at one person who fills the picture.

The anchors are those of MediaPipe's SsdAnchorsCalculator with the options of its published graphs
(face_detection_short_range, face_detection_full_range, palm_detection, pose_detection): all of
size 1, at the centres of the cells of some grids, several per cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rk3588_vision.detection.boxes import (
    Detections,
    Floats,
    around,
    best_classes,
    cells,
    from_centres,
)
from rk3588_vision.detection.head import Head, OutputTensor, as_probability, sigmoid
from rk3588_vision.detection.segmentation import SegmentationHead
from rk3588_vision.placement import Fit, Preparation

BOX_VALUES = 4


@dataclass(frozen=True, slots=True)
class BlazeModel:
    """A published detector: its input's side, the (stride, anchors per cell) of its grids, its key
    points, and what its graph normalises pixels to.
    """

    what: str
    side: int
    grids: tuple[tuple[int, int], ...]
    points: int
    mean: float
    std: float

    @property
    def anchors(self) -> tuple[int, ...]:
        """Return how many anchors each grid has."""
        return tuple((self.side // stride) ** 2 * each for stride, each in self.grids)


MODELS = (
    BlazeModel("faces, short range", 128, ((8, 2), (16, 6)), 6, 127.5, 127.5),
    BlazeModel("faces, full range", 192, ((4, 1),), 6, 127.5, 127.5),
    BlazeModel("people", 224, ((8, 2), (16, 2), (32, 6)), 4, 127.5, 127.5),
    BlazeModel("palms", 192, ((8, 2), (16, 6)), 7, 0.0, 255.0),
)


@dataclass(frozen=True, slots=True)
class BlazeHead(Head):
    """Boxes and points [1, n, 4 + 2 k] with scores [1, n, 1], in one tensor each or, finest grid
    first, in one each per grid. ``boxes`` and ``scores``: their places among the outputs.
    """

    name = "blazeface"
    needs_suppression = True
    classes = 1

    model: BlazeModel
    boxes: tuple[int, ...]
    scores: tuple[int, ...]
    score_outputs: tuple[OutputTensor, ...]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return the one class that the model finds: a face, a palm or a person."""
        what = self.model.what.partition(",")[0]
        return ("person" if what == "people" else what.removesuffix("s"),)

    @property
    def preparation(self) -> Preparation:
        return Preparation(Fit.LETTERBOX, self.model.mean, self.model.std, border=0)

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = np.concatenate([outputs[i][0] for i in self.boxes])
        likely = [
            as_probability(outputs[i][0], output)
            for i, output in zip(self.scores, self.score_outputs, strict=True)
        ]
        side = self.model.side
        centres = np.concatenate(
            [
                np.repeat((cells((stride,), side, side)[0] + 0.5) * stride, each, axis=0)
                for stride, each in self.model.grids
            ]
        )
        boxes = np.concatenate([rows[:, :2] + centres, rows[:, 2:4]], axis=1)
        places = rows[:, BOX_VALUES:].reshape(len(rows), -1, 2) + centres[:, np.newaxis]
        points = np.concatenate([places, np.ones((*places.shape[:2], 1))], axis=2)
        return best_classes(from_centres(boxes), np.concatenate(likely), threshold, points=points)


HAND_POINTS = 21
"""The wrist, and four points of each finger from the thumb on."""

SELFIE_SIZES = ((256, 256), (144, 256))
"""Rows and columns of the published models, general and landscape."""


@dataclass(frozen=True, slots=True)
class LandmarkModel:
    """A published model of landmarks: what it looks at, its input's side, how many points of how
    many values each its output has, and how many of them are on the object. ``sure_at``: where a
    point says how likely it is to be seen, as a logit; None: nowhere.
    """

    name: str
    what: str
    side: int
    values: int
    points: int
    shown: int
    sure_at: int | None = None


BLAZEPOSE_POINTS = 33
"""The points of a person; the published models give some more that are not shown."""

HAND = LandmarkModel("hand-landmarks", "hand", 224, 3, HAND_POINTS, HAND_POINTS)
LANDMARKS = (
    HAND,
    LandmarkModel("blazepose", "person", 256, 5, 39, BLAZEPOSE_POINTS, 3),
    LandmarkModel("blazepose", "person", 256, 5, BLAZEPOSE_POINTS, BLAZEPOSE_POINTS, 3),
    LandmarkModel("face-landmarks", "face", 192, 3, 468, 468),
    LandmarkModel("face-landmarks", "face", 256, 3, 478, 478),
)


@dataclass(frozen=True, slots=True)
class LandmarkHead(Head):
    """Landmarks of the hand, the person or the face that the picture shows: x, y, depth and more in
    pixels of the input, and how likely there is one. ``points`` and ``presence``: their places
    among the outputs, the first ones of either size.
    """

    classes = 1
    preparation = Preparation(Fit.LETTERBOX, 0.0, 255.0, border=0)

    model: LandmarkModel
    points: int
    presence: int
    presence_output: OutputTensor

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return what the points belong to."""
        return (self.model.what,)

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        model = self.model
        values = outputs[self.points].reshape(1, model.points, model.values)[:, : model.shown]
        score = as_probability(outputs[self.presence].reshape(1), self.presence_output)
        sure = np.broadcast_to(score[:, np.newaxis, np.newaxis], (1, model.shown, 1))
        if model.sure_at is not None:
            sure = sigmoid(values[:, :, model.sure_at : model.sure_at + 1])
        points = np.concatenate([values[:, :, :2], sure], axis=2)
        found = Detections(around(points[:, :, :2]), np.zeros(1, np.int64), score, points)
        return found.above(threshold)


@dataclass(frozen=True, slots=True)
class SelfieHead(SegmentationHead):
    """The head of a map that says how likely each pixel shows the person, [1, h, w, 1]."""

    name = "selfie"
    class_names = ("person",)
    preparation = Preparation(Fit.STRETCH, 0.0, 255.0)
