"""Windows, and which inputs a position of a convolution's kernel meets."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from delegate.model.graph import Padding
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.shared.convolution import ConvolutionOptions
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.transpose_conv import TransposeConvOptions
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


def _taps(
    options: ConvolutionOptions, features: Array, kh: int, kw: int
) -> Callable[[int, int], Array]:
    """The input that a kernel position meets in every output pixel."""
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

    return tap


def tap_sum(
    options: ConvolutionOptions, x: Array, weights: Array, product: Callable[[Array, Array], Array]
) -> Array:
    """``product`` of what each tap sees and its ``weights``, rows and columns first, summed."""
    kh, kw = weights.shape[:2]
    tap = _taps(options, x, kh, kw)
    total = sum(product(tap(i, j), weights[i, j]) for i in range(kh) for j in range(kw))
    return np.asarray(total)


def windows(x: Array, size: Sequence[int], strides: Sequence[int]) -> Array:
    """[images, rows, columns, channels, height, width] of windows within the image."""
    view: Any = np.lib.stride_tricks.sliding_window_view  # NumPy's stubs know one axis only
    every: Array = view(x, tuple(size), (1, 2))
    return every[:, :: strides[0], :: strides[1]]


def pooled(call: Call) -> Array:
    """The ``windows`` of a pool in float64, NaN where they reach beyond the image."""
    options, x = call.options(PoolOptions), call.value().astype(np.float64)
    size, strides = (options.filter_h, options.filter_w), (options.stride_h, options.stride_w)
    if options.padding is Padding.SAME:
        sides = zip(x.shape[1:3], size, strides, strict=True)
        added = [max((-(-n // by) - 1) * by + kernel - n, 0) for n, kernel, by in sides]
        amounts = [(0, 0), *((n // 2, n - n // 2) for n in added), (0, 0)]
        x = np.pad(x, amounts, constant_values=np.nan)
    return windows(x, size, strides)


def scattered(
    options: TransposeConvOptions, x: Array, weights: Array, shape: Sequence[int]
) -> Array:
    """Return a result of ``shape``, to which every pixel adds its kernel."""
    outputs, kh, kw, _ = weights.shape
    (images, height, width, _), (_, rows, columns, _) = x.shape, shape
    sh, sw = options.stride_h, options.stride_w
    # Left out before the first result: the padding of the convolution that is transposed.
    _, top = geometry(rows, kh, sh, options.padding)
    _, left = geometry(columns, kw, sw, options.padding)
    down, right = (height - 1) * sh + 1, (width - 1) * sw + 1
    room = max(down - 1 + kh, top + rows), max(right - 1 + kw, left + columns)
    total = np.zeros((images, *room, outputs))
    for i in range(kh):
        for j in range(kw):
            total[:, i : i + down : sh, j : j + right : sw] += x @ weights[:, i, j].T
    return total[:, top : top + rows, left : left + columns]


def resized(
    options: ResizeBilinearOptions | ResizeNearestOptions, size: int, output: int
) -> tuple[int, int]:
    """Rows before and behind a resizing whose ratio is the step from a row to the next."""
    is_aligned = options.align_corners and output > 1
    return (size - 1, output - 1) if is_aligned else (size, output)


def between(
    options: ResizeBilinearOptions,
    size: int,
    output: int,
    kind: type[np.floating[Any]] = np.float32,
) -> tuple[Array, Array, Array]:
    """The rows before and behind each row of the result, and how far it lies from the first."""
    source, target = map(kind, resized(options, size, output))
    shift = kind(0.5 if options.half_pixel_centers else 0)
    place = (np.arange(output, dtype=kind) + shift) * (source / target) - shift
    first = np.maximum(np.floor(place).astype(int), 0)
    second = np.minimum(np.ceil(place).astype(int), size - 1)
    return first, second, place - first.astype(kind)
