"""Windows, and which inputs a position of a convolution's kernel meets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delegate.model.graph import Padding
from delegate.ops.shared.convolution import ConvolutionOptions
from delegate.ops.shared.pooling import PoolOptions
from rk3588_conformance.reference.arithmetic import Array, Call


def geometry(
    size: int, kernel: int, stride: int, padding: Padding, dilation: int = 1
) -> tuple[int, int]:
    """Return how many windows there are along one side, and how far the first begins before the
    image.
    """
    reach = (kernel - 1) * dilation + 1
    output = -(-size // stride) if padding is Padding.SAME else (size - reach) // stride + 1
    return output, max((output - 1) * stride + reach - size, 0) // 2


def taps(
    options: ConvolutionOptions, features: Array, kh: int, kw: int
) -> tuple[tuple[int, int], Callable[[int, int], Array]]:
    """Output height and width, and the input that a kernel position meets in every output pixel."""
    n, h, w, channels = features.shape
    scheme = options.padding
    rows, top = geometry(h, kh, options.stride_h, scheme, options.dilation_h)
    columns, left = geometry(w, kw, options.stride_w, scheme, options.dilation_w)
    height = (rows - 1) * options.stride_h + (kh - 1) * options.dilation_h + 1
    width = (columns - 1) * options.stride_w + (kw - 1) * options.dilation_w + 1
    padded = np.zeros((n, max(height, top + h), max(width, left + w), channels), features.dtype)
    padded[:, top : top + h, left : left + w] = features

    def tap(y: int, x: int) -> Array:
        y0, x0 = y * options.dilation_h, x * options.dilation_w
        return padded[
            :,
            y0 : y0 + (rows - 1) * options.stride_h + 1 : options.stride_h,
            x0 : x0 + (columns - 1) * options.stride_w + 1 : options.stride_w,
        ]

    return (rows, columns), tap


def pooled(call: Call, reduce: Callable[[Array], Array]) -> Array:
    """``reduce`` of every window: from [images, rows, columns, channels] to [images, channels]."""
    options, features = call.options(PoolOptions), call.value()
    images, height, width, channels = features.shape
    rows = _slices(height, options.filter_h, options.stride_h, options.padding)
    columns = _slices(width, options.filter_w, options.stride_w, options.padding)
    results = np.empty((images, len(rows), len(columns), channels), np.int64)
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            results[:, y, x] = reduce(features[:, row, column].astype(np.int64))
    return results


def _slices(size: int, kernel: int, stride: int, padding: Padding) -> list[slice]:
    count, before = geometry(size, kernel, stride, padding)
    starts = [number * stride - before for number in range(count)]
    return [slice(max(start, 0), min(start + kernel, size)) for start in starts]
