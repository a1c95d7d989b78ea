"""MediaPipe's models that look at one hand, or at one person who fills the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rk3588_vision.detection.boxes import Detections, Floats, around
from rk3588_vision.detection.masks import mask_in_box
from rk3588_vision.placement import Fit, Placement, Preparation

HAND_POINTS = 21
"""The wrist, and four points of each finger from the thumb on."""
HAND_VALUES = 3 * HAND_POINTS
HAND_SIDE = 224

SELFIE_SIZES = ((256, 256), (144, 256))
"""Rows and columns of the published models, general and landscape."""

_LIKELY = 0.5
"""Pixels that are more likely a person than not."""


@dataclass(frozen=True, slots=True)
class HandHead:
    """Landmarks of the hand that the picture shows, x, y and depth in pixels of the input
    [1, 63], and how likely there is one [1, 1]: the first outputs of either shape, before
    handedness and landmarks in metres. ``points`` and ``presence``: their places among the outputs.
    """

    name: ClassVar[str] = "hand-landmarks"
    needs_suppression: ClassVar[bool] = False
    classes: ClassVar[int] = 1
    preparation: ClassVar[Preparation] = Preparation(Fit.LETTERBOX, 0.0, 255.0, border=0)

    points: int
    presence: int

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        places = outputs[self.points].reshape(1, HAND_POINTS, 3)[:, :, :2]
        score = outputs[self.presence].reshape(1)
        sure = np.broadcast_to(score[:, np.newaxis, np.newaxis], (1, HAND_POINTS, 1))
        points = np.concatenate([places, sure], axis=2)
        found = Detections(around(places), np.zeros(1, np.int64), score, points)
        return found.above(threshold)


@dataclass(frozen=True, slots=True)
class SelfieHead:
    """How likely each pixel of the input shows the person, [1, h, w, 1]. The score is the mean over
    the pixels that likely do.
    """

    name: ClassVar[str] = "selfie"
    needs_suppression: ClassVar[bool] = False
    classes: ClassVar[int] = 1
    preparation: ClassVar[Preparation] = Preparation(Fit.STRETCH, 0.0, 255.0)

    input_h: int
    input_w: int

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        likely = outputs[0][0, :, :, 0]
        rows, columns = np.nonzero(likely > _LIKELY)
        if not rows.size:
            return Detections(np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0))
        box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        score = likely[rows, columns].mean()
        found = Detections(np.array([box], np.float64), np.zeros(1, np.int64), np.array([score]))
        return found.above(threshold)

    def with_masks(
        self, found: Detections, outputs: Sequence[Floats], placement: Placement
    ) -> Detections:
        """``found``, in pixels of the picture, with its mask."""
        logits = outputs[0][0, :, :, 0] - _LIKELY
        size = self.input_h, self.input_w
        return replace(
            found, masks=tuple(mask_in_box(logits, box, placement, size) for box in found.boxes)
        )
