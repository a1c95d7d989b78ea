"""RESIZE_BILINEAR: four pixels, weighted by how near they are, in fixed point as for int8."""

from __future__ import annotations

import numpy as np

from delegate.ops.resize_bilinear import ResizeBilinearOptions
from rk3588_conformance.reference.arithmetic import Array, Call

_ONE = 1 << 10


def reference(call: Call) -> Array:
    options = call.node.known_options(ResizeBilinearOptions)
    image = call.value().astype(np.int64)
    _, rows, columns, _ = call.output.shape
    y0, y1, dy = _places(options, image.shape[1], rows)
    x0, x1, dx = _places(options, image.shape[2], columns)
    dy = dy[:, np.newaxis, np.newaxis]
    dx = dx[:, np.newaxis]
    upper = image[:, y0][:, :, x0] * (_ONE - dx) + image[:, y0][:, :, x1] * dx
    lower = image[:, y1][:, :, x0] * (_ONE - dx) + image[:, y1][:, :, x1] * dx
    total = upper * (_ONE - dy) + lower * dy
    rounded = (np.abs(total) + _ONE * _ONE // 2) // (_ONE * _ONE)
    return np.asarray(np.sign(total) * rounded)


def _places(options: ResizeBilinearOptions, size: int, output: int) -> tuple[Array, Array, Array]:
    """The rows before and behind each row of the result, and how far it lies from the first."""
    aligned = options.align_corners and output > 1
    source, target = (size - 1, output - 1) if aligned else (size, output)
    step = (_ONE * source + target // 2) // target
    place = np.arange(output) * step
    if options.half_pixel_centers:
        place = place + step // 2 - _ONE // 2
    first = np.maximum(place // _ONE, 0)
    second = np.minimum(-(-place // _ONE), size - 1)
    return first, second, place - first * _ONE
