"""RESIZE_NEAREST_NEIGHBOR: each row repeats one of the image, found in float32."""

from __future__ import annotations

import numpy as np

from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from rk3588_conformance.reference.arithmetic import Array, Call

SELECTS = True


def reference(call: Call) -> Array:
    options = call.node.known_options(ResizeNearestOptions)
    image = call.value()
    _, rows, columns, _ = call.output.shape
    y = [_nearest(options, row, image.shape[1], rows) for row in range(rows)]
    x = [_nearest(options, column, image.shape[2], columns) for column in range(columns)]
    return np.asarray(image[:, y][:, :, x].astype(np.int64))


def _nearest(options: ResizeNearestOptions, place: int, size: int, output: int) -> int:
    scale = np.float32(size) / np.float32(output)
    if options.align_corners and output > 1:
        scale = np.float32(size - 1) / np.float32(output - 1)
    exact = np.float32(place) + np.float32(0.5 if options.half_pixel_centers else 0)
    exact = exact * scale
    whole = int(exact)
    if options.align_corners and exact - np.float32(whole) >= np.float32(0.5):
        whole += 1
    return min(whole, size - 1)
