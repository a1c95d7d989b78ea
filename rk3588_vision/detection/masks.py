"""Masks of objects: where a map over the model's input is positive, on the picture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from rk3588_vision.detection.boxes import Detections, Floats, Mask
from rk3588_vision.detection.head import OutputTensor, Rows
from rk3588_vision.placement import Placement

MASK_WEIGHTS = 32
"""Prototypes of v8's and v11's segmentation heads (``nm`` of their Segment layer)."""


def prototypes_in(index: int, output: OutputTensor) -> Rows | None:
    """Return the output as prototypes of masks [m, h, w]; None: it is none."""
    shape = output.shape
    if len(shape) != 4 or shape[0] != 1 or MASK_WEIGHTS not in (shape[1], shape[3]):
        return None
    return Rows(index, output, MASK_WEIGHTS, shape[3] != MASK_WEIGHTS)


class MaskedHead(ABC):
    """A head that makes masks besides, when the boxes have their places on the picture."""

    __slots__ = ()
    input_h: int
    input_w: int

    @abstractmethod
    def logits(self, found: Detections, outputs: Sequence[Floats]) -> Iterable[Floats] | None:
        """Return a map [h, w] over the input for each object, positive where it is; None: this
        model has no masks.
        """

    def with_masks(
        self, found: Detections, outputs: Sequence[Floats], placement: Placement
    ) -> Detections:
        """Return ``found``, in pixels of the picture, with its masks."""
        maps, size = self.logits(found, outputs), (self.input_h, self.input_w)
        if maps is None:
            return found
        pairs = zip(maps, found.boxes, strict=True)
        return replace(found, masks=tuple(_in_box(m, box, placement, size) for m, box in pairs))


def prototype_logits(found: Detections, prototypes: Floats) -> Iterable[Floats]:
    """Return the sums of ``prototypes`` [m, h, w] by the objects' weights."""
    assert found.weights is not None
    return (np.tensordot(weights, prototypes, axes=1) for weights in found.weights)


def _in_box(logits: Floats, box: Floats, placement: Placement, input_size: tuple[int, int]) -> Mask:
    """The pixels of ``box`` (of the picture) whose place in ``logits`` [h, w] is positive,
    bilinearly. ``logits`` cover the input, of ``input_size`` rows and columns.
    """
    left, top = (int(v) for v in np.floor(box[:2]))
    right, bottom = (int(v) for v in np.ceil(box[2:]))
    h, w = logits.shape
    input_h, input_w = input_size
    columns = (np.arange(left, right) + 0.5) * placement.w / placement.image_w + placement.left
    rows = (np.arange(top, bottom) + 0.5) * placement.h / placement.image_h + placement.top
    across, down = columns * w / input_w - 0.5, rows * h / input_h - 0.5
    return Mask(left, top, _bilinear(down, h) @ logits @ _bilinear(across, w).T > 0.0)


def _bilinear(places: Floats, size: int) -> Floats:
    """Return how much each of ``size`` values counts at every place between them [n, size]; the
    first and the last one go on outside.
    """
    distances = np.clip(places, 0, size - 1)[:, np.newaxis] - np.arange(size)
    weights: Floats = np.maximum(1.0 - np.abs(distances), 0.0)
    return weights
