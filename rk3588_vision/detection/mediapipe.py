"""MediaPipe's models that look at one hand, or at one person who fills the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rk3588_vision.detection.boxes import Detections, Floats, around
from rk3588_vision.detection.head import OutputTensor, as_probability, sigmoid
from rk3588_vision.detection.segmentation import SegmentationHead
from rk3588_vision.placement import Fit, Preparation

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
class LandmarkHead:
    """Landmarks of the hand, the person or the face that the picture shows: x, y, depth and more in
    pixels of the input, and how likely there is one. ``points`` and ``presence``: their places
    among the outputs, the first ones of either size.
    """

    needs_suppression: ClassVar[bool] = False
    classes: ClassVar[int] = 1
    preparation: ClassVar[Preparation] = Preparation(Fit.LETTERBOX, 0.0, 255.0, border=0)

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

    preparation: ClassVar[Preparation] = Preparation(Fit.STRETCH, 0.0, 255.0)

    @property
    def class_names(self) -> tuple[str, ...]:
        return ("person",)
