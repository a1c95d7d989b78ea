"""Puts a picture into a model's input, and places in the input back onto the picture."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from delegate.errors import ModelError
from delegate.host.samples import Details, Sample
from rk3588_vision.images import FLOAT_MEAN, FLOAT_STD, ImageInput, open_image, pixels_to_input

if TYPE_CHECKING:
    from PIL.Image import Image

LETTERBOX_GREY = 114
"""The colour of the border that YOLO models are trained with."""


class Fit(enum.Enum):
    """``STRETCH`` fills the input; the others keep the aspect ratio and leave a grey border around
    the picture (``LETTERBOX``) or right of and below it (``CORNER``, as YOLOX does).
    """

    STRETCH = "stretch"
    LETTERBOX = "letterbox"
    CORNER = "corner"


@dataclass(frozen=True, slots=True)
class Preparation:
    """The preparation that a model expects of its picture. ``mean`` and ``std`` are for float
    inputs only.
    """

    fit: Fit
    mean: float
    std: float
    is_bgr: bool = False
    border: int = LETTERBOX_GREY
    """The grey around a picture that does not fill the input."""


LABEL_IMAGE = Preparation(Fit.STRETCH, FLOAT_MEAN, FLOAT_STD)
"""The preparation of TensorFlow's label_image and object detection API: stretched, not cropped."""


@dataclass(frozen=True, slots=True)
class Placement:
    """``image_h`` x ``image_w`` pixels went into ``h`` x ``w`` ones from (``top``, ``left``)."""

    image_h: int
    image_w: int
    top: int
    left: int
    h: int
    w: int

    @classmethod
    def of(cls, image_h: int, image_w: int, input_h: int, input_w: int, fit: Fit) -> Placement:
        """The placement of a picture in an input of ``input_h`` x ``input_w`` pixels."""
        if fit is Fit.STRETCH:
            return cls(image_h, image_w, 0, 0, input_h, input_w)
        scale = min(input_h / image_h, input_w / image_w)
        h = min(max(round(image_h * scale), 1), input_h)
        w = min(max(round(image_w * scale), 1), input_w)
        if fit is Fit.CORNER:
            return cls(image_h, image_w, 0, 0, h, w)
        return cls(image_h, image_w, (input_h - h) // 2, (input_w - w) // 2, h, w)

    def to_image(self, boxes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Boxes in pixels of the input as boxes in pixels of the picture, cut at its edges."""
        corners = self.points_to_image(boxes.reshape(-1, 2, 2))
        moved = np.clip(corners, 0.0, [self.image_w, self.image_h])
        return moved.reshape(boxes.shape)

    def points_to_image(self, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Points [..., 2 or more] whose first two numbers are x and y in pixels of the input, in
        pixels of the picture, also outside it; further numbers stay.
        """
        moved = points.copy()
        moved[..., 0] = (points[..., 0] - self.left) * (self.image_w / self.w)
        moved[..., 1] = (points[..., 1] - self.top) * (self.image_h / self.h)
        return moved


def place(
    image: Image, target: ImageInput, preparation: Preparation
) -> tuple[npt.NDArray[Any], Placement]:
    """The picture as the model's input tensor, and where its pixels went."""
    from PIL.Image import Resampling

    placement = Placement.of(image.height, image.width, target.h, target.w, preparation.fit)
    resized = image.convert("RGB" if target.c == 3 else "L").resize(
        (placement.w, placement.h), Resampling.BILINEAR
    )
    pixels = np.asarray(resized, dtype=np.uint8).reshape(placement.h, placement.w, target.c)
    if preparation.is_bgr:
        pixels = pixels[:, :, ::-1]
    canvas = np.full((target.h, target.w, target.c), preparation.border, dtype=np.uint8)
    canvas[
        placement.top : placement.top + placement.h, placement.left : placement.left + placement.w
    ] = pixels
    tensor = pixels_to_input(canvas, target, mean=preparation.mean, std=preparation.std)
    return tensor, placement


def load_image(
    path: Path, target: ImageInput, preparation: Preparation = LABEL_IMAGE
) -> npt.NDArray[Any]:
    """Reads ``path``, turns it upright and makes it the input tensor. Raises UsageError naming the
    file.
    """
    return place(open_image(path), target, preparation)[0]


def image_sample(path: Path, inputs: Details) -> Sample:
    """One sample from a picture, for models with one image input. Raises ModelError, UsageError."""
    if len(inputs) != 1:
        raise ModelError(f"the model has {len(inputs)} inputs; pictures need a model with one")
    return [load_image(path, ImageInput.from_details(inputs[0]))]
