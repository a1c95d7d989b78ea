"""Makes the input of any model of pictures.

In: a .tflite file and what the user knows better. Out: the preparation that ``detect`` has for a
detector and ``classify`` for every other model, so that calibration sees what the model will see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.detector import DetectorPlan
from rk3588_vision.detection.recognise import UnknownHeadError
from rk3588_vision.images import PIXEL_MAX, ImageInput
from rk3588_vision.placement import LABEL_IMAGE, Preparation, load_image


@dataclass(frozen=True, slots=True)
class PictureInput:
    """The preparation of a model's pictures, and ``user``, the command that prepares them so."""

    preparation: Preparation
    user: str

    @classmethod
    def of(cls, path: Path, hints: Hints) -> PictureInput:
        """Find the preparation for a model. Raises ModelError where several detectors fit,
        UsageError for a decoder that does not.
        """
        try:
            plan = DetectorPlan.read(path, hints)
        except UnknownHeadError:  # it is no detector
            return cls(hints.prepared(LABEL_IMAGE), "classify")
        return cls(plan.preparation, f"detect, {plan.head.name}")

    def sample(self, picture: Path, details: Mapping[str, Any]) -> npt.NDArray[Any]:
        """Return a picture as the input that the runtime describes. Raises UsageError."""
        return load_image(picture, ImageInput.from_details(details), self.preparation)

    def pixel_range(self) -> tuple[float, float]:
        """Return what the darkest and the brightest pixel become in a float input, in order."""
        ends = [(pixel - self.preparation.mean) / self.preparation.std for pixel in (0, PIXEL_MAX)]
        return min(ends), max(ends)

    def __str__(self) -> str:
        prepared = self.preparation
        order = "BGR, " if prepared.is_bgr else ""
        return (
            f"{prepared.fit.value}, {order}(pixel - {prepared.mean:g}) / {prepared.std:g}, "
            f"as {self.user}"
        )
