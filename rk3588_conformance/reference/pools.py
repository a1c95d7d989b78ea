"""The windows of MAX_POOL_2D and AVERAGE_POOL_2D, cut off where the image ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delegate.model.graph import Padding
from delegate.ops.shared.pooling import PoolOptions
from rk3588_conformance.reference.arithmetic import Array, Call
from rk3588_conformance.reference.windows import geometry


def pooled(call: Call, reduce: Callable[[Array], Array]) -> Array:
    """``reduce`` of every window: from [images, rows, columns, channels] to [images, channels]."""
    options, features = call.node.known_options(PoolOptions), call.value()
    images, height, width, channels = features.shape
    rows = _windows(height, options.filter_h, options.stride_h, options.padding)
    columns = _windows(width, options.filter_w, options.stride_w, options.padding)
    results = np.empty((images, len(rows), len(columns), channels), np.int64)
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            results[:, y, x] = reduce(features[:, row, column].astype(np.int64))
    return results


def _windows(size: int, kernel: int, stride: int, padding: Padding) -> list[slice]:
    count, before = geometry(size, kernel, stride, padding)
    starts = [number * stride - before for number in range(count)]
    return [slice(max(start, 0), min(start + kernel, size)) for start in starts]
