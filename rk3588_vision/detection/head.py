"""The interface of decoders of detector outputs, and what the decoders share; masks of objects:
where a map over the model's input is positive, on the picture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.host.runtimes import dequantize
from rk3588_vision.detection.boxes import Detections, Floats, Mask
from rk3588_vision.placement import Placement, Preparation

Details = Mapping[str, Any]
Anchors = tuple[tuple[float, float], ...]
"""(width, height) in pixels of the model's input."""


@dataclass(frozen=True, slots=True)
class OutputTensor:
    """One output of a model as its file describes it."""

    name: str
    shape: tuple[int, ...]
    lowest: float | None
    highest: float | None
    """The real range that the quantisation can hold; None for floats."""

    @classmethod
    def from_details(cls, details: Details) -> OutputTensor:
        """Read an entry of ``get_output_details()``."""
        dtype = np.dtype(details["dtype"])
        scale, zero_point = details["quantization"]
        name, shape = str(details["name"]), tuple(int(d) for d in details["shape"])
        if not np.issubdtype(dtype, np.integer) or not scale:
            return cls(name, shape, None, None)
        limits = np.iinfo(dtype)
        ends = (float(scale) * (int(end) - zero_point) for end in (limits.min, limits.max))
        return cls(name, shape, *ends)


@dataclass(frozen=True, slots=True)
class Rows:
    """An output read as rows of ``channels``, one per cell: of a grid with a ``stride``, or of all
    grids. ``index``: its place among the model's outputs.
    """

    index: int
    output: OutputTensor
    channels: int
    channels_first: bool
    stride: int = 0

    def map_of(self, outputs: Sequence[Floats]) -> Floats:
        """Return the values with channels first."""
        values = outputs[self.index][0]
        return values if self.channels_first else np.moveaxis(values, -1, 0)

    def of(self, outputs: Sequence[Floats]) -> Floats:
        """Return the values [cells, channels], row by row of the grid."""
        rows: Floats = np.moveaxis(self.map_of(outputs), 0, -1).reshape(-1, self.channels)
        return rows


@dataclass(frozen=True, slots=True)
class Head(ABC):
    """Decodes the outputs of one family of detectors: their real values to candidates, in pixels of
    the model's input. ``name``: what ``--decoder`` takes; ``preparation``: what models with this
    head are trained with; ``needs_suppression``: one object may come as several boxes; ``classes``:
    how many it tells apart, None where the outputs do not say; ``class_names``: what they are,
    where the family says it.
    """

    input_h: int
    input_w: int

    @property
    @abstractmethod
    def name(self) -> str: ...
    @property
    @abstractmethod
    def preparation(self) -> Preparation: ...
    @property
    def needs_suppression(self) -> bool:
        return False

    @property
    def classes(self) -> int | None:
        return None

    @property
    def class_names(self) -> tuple[str, ...] | None:
        return None

    @abstractmethod
    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections: ...

    @property
    def prototypes(self) -> Rows | None:
        """Return the output with the prototypes that masks are sums of, by the objects' weights."""
        return None

    def logits(self, found: Detections, outputs: Sequence[Floats]) -> Iterable[Floats] | None:
        """Return a map [h, w] over the input for each object, positive where it is; None: this
        model has no masks.
        """
        if self.prototypes is None or found.weights is None:
            return None
        maps = self.prototypes.map_of(outputs)
        return (np.tensordot(weights, maps, axes=1) for weights in found.weights)

    def with_masks(
        self, found: Detections, outputs: Sequence[Floats], placement: Placement
    ) -> Detections:
        """Return ``found``, in pixels of the picture, with its masks."""
        maps, size = self.logits(found, outputs), (self.input_h, self.input_w)
        if maps is None:
            return found
        pairs = zip(maps, found.boxes, strict=True)
        return replace(found, masks=tuple(_in_box(m, box, placement, size) for m, box in pairs))


def real_outputs(arrays: Sequence[npt.NDArray[Any]], details: Sequence[Details]) -> list[Floats]:
    """The outputs of an inference as real values."""
    return [dequantize(array, entry) for array, entry in zip(arrays, details, strict=True)]


def sigmoid(values: Floats) -> Floats:
    """1 / (1 + exp(-x)), without overflow."""
    result: Floats = 0.5 * (1.0 + np.tanh(0.5 * values))
    return result


_TOLERANCE = 0.05


def as_probability(values: Floats, output: OutputTensor | None = None) -> Floats:
    """Scores as probabilities: through a sigmoid unless they are probabilities already.

    A quantised output tells by its range, a float one by its values.
    """
    return values if are_probabilities(values, output) else sigmoid(values)


def are_probabilities(values: Floats, output: OutputTensor | None = None) -> bool:
    low = output.lowest if output is not None and output.lowest is not None else values.min()
    high = output.highest if output is not None and output.highest is not None else values.max()
    return bool(low >= -_TOLERANCE and high <= 1.0 + _TOLERANCE)


MASK_WEIGHTS = 32
"""Prototypes of v8's and v11's segmentation heads (``nm`` of their Segment layer)."""


def prototypes_in(index: int, output: OutputTensor) -> Rows | None:
    """Return the output as prototypes of masks [m, h, w]; None: it is none."""
    shape = output.shape
    if len(shape) != 4 or shape[0] != 1 or MASK_WEIGHTS not in (shape[1], shape[3]):
        return None
    return Rows(index, output, MASK_WEIGHTS, shape[3] != MASK_WEIGHTS)


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
