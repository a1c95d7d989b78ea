"""Masks of objects: where a map over the model's input is positive, on the picture."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from delegate.vision.detection.boxes import Floats, Mask
from delegate.vision.detection.placement import Placement


def mask_in_box(
    logits: Floats, box: Floats, placement: Placement, input_size: tuple[int, int]
) -> Mask:
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
    return Mask(left, top, _bilinear(logits, down, across) > 0.0)


def _bilinear(values: Floats, rows: Floats, columns: Floats) -> Floats:
    """``values`` [h, w] at every pair of ``rows`` and ``columns``; the edges go on outside."""

    def between(places: Floats, size: int) -> tuple[npt.NDArray[np.int64], Floats]:
        inside = np.clip(places, 0, size - 1)
        low = np.minimum(inside.astype(np.int64), max(size - 2, 0))
        return low, inside - low

    y, down = between(rows, values.shape[0])
    x, right = between(columns, values.shape[1])
    below, beside = np.minimum(y + 1, values.shape[0] - 1), np.minimum(x + 1, values.shape[1] - 1)
    upper = values[np.ix_(y, x)] * (1 - right) + values[np.ix_(y, beside)] * right
    lower = values[np.ix_(below, x)] * (1 - right) + values[np.ix_(below, beside)] * right
    result: Floats = upper * (1 - down)[:, np.newaxis] + lower * down[:, np.newaxis]
    return result
