"""Windows, and which inputs a position of a convolution's kernel meets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delegate.model.graph import Padding
from delegate.ops.shared.convolution import ConvolutionOptions
from rk3588_conformance.reference.arithmetic import Array


def geometry(
    size: int, kernel: int, stride: int, padding: Padding, dilation: int = 1
) -> tuple[int, int]:
    """How many windows there are along one side, and how far the first begins before the image."""
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
    padded = np.zeros((n, max(height, top + h), max(width, left + w), channels))
    padded[:, top : top + h, left : left + w] = features

    def tap(y: int, x: int) -> Array:
        y0, x0 = y * options.dilation_h, x * options.dilation_w
        return padded[
            :,
            y0 : y0 + (rows - 1) * options.stride_h + 1 : options.stride_h,
            x0 : x0 + (columns - 1) * options.stride_w + 1 : options.stride_w,
        ]

    return (rows, columns), tap
