"""Compute float operators in exact arithmetic. It shares no code with the compiler.

Everything is computed in float64 from the model's own numbers, the inputs rounded to fp16 as the
host rounds them. Beside each result stands the sum of the magnitudes of its terms, and how many
roundings to fp32 it took: one for every 32 products of a tap, one for adding each such sum, one for
the bias. Weights of float32 may have become either fp16 beside them; those that are fp16 stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, Graph, Node, Padding
from delegate.ops.add import AddOptions
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mul import MulOptions
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.shared.convolution import ConvolutionOptions
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.sub import SubOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.reference.windows import geometry, taps

Array = npt.NDArray[Any]
Terms = tuple[Array, Array, int] | tuple[Array, Array, int, Array]
"""The exact result before its clamp, the magnitudes in it, the roundings to fp32; what the rounding
of weights may have moved it by.
"""

Exact = Callable[[Graph, Node, Any], tuple[Terms, Activation]]
"""The results of an operator in exact arithmetic; of a graph, a node, and tensors' values by index.
"""

FP32 = 2.0**-24
FP16 = 2.0**-11
"""The share of a number by which rounding may move it."""

_PRODUCTS = 32
_TABLE = 0.25 * 0.504 / 1536 + 0.0963 / 48**2 / 8 + 2 * 2.0**-15
"""The error of the logistic function's table: half an index at the steepest place, chords instead
of the curve, and a unit each of an entry and of what lies between two.
"""
_TANH_TABLE = 0.504 / 3456 + 0.7699 * (32 / 3456) ** 2 / 8 + 2 * 2.0**-15
"""The same of TANH, which is four times as steep."""
_MOST_ROWS = 31
"""The most rows of a window."""
_MOST_PARTS = 7


def _bias(node: Node, values: Any, position: int = 2) -> Array:
    has_bias = len(node.inputs) > position and node.inputs[position] >= 0
    return np.asarray(values(node.inputs[position])) if has_bias else np.zeros(1)


def _halved(weights: Array) -> Array:
    return weights.astype(np.float16).astype(np.float64)


def _gaps(weights: Array) -> Array:
    """Return the gap from the fp16 below each weight to the one above it; 0 of a weight that is
    one.
    """
    nearest = weights.astype(np.float16)
    side = np.where(nearest < weights, np.inf, -np.inf).astype(np.float16)
    other = np.nextafter(nearest, np.where(nearest == weights, nearest, side))
    return np.asarray(np.abs(other.astype(np.float64) - nearest))


def _factors(x: Array, weights: Array) -> list[tuple[Array, Array]]:
    """Return the factors of the exact sum, of the magnitudes in it, and of what rounded weights may
    move.
    """
    gaps, size = _gaps(weights), np.abs(x)
    return [(x, weights), (size, np.abs(weights) + gaps), (size, gaps)]


def _sum(sums: Sequence[Array], bias: Array, groups: int) -> Terms:
    """``sums``: of ``_factors``."""
    exact, magnitude, moved = sums
    return exact + bias, magnitude + np.abs(bias), 2 * groups + 1, moved


def _dense(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """FULLY_CONNECTED."""
    activation = node.known_options(FullyConnectedOptions).activation
    weights = values(node.inputs[1]).T
    x = values(node.inputs[0]).reshape(-1, weights.shape[0])
    sums = [a @ b for a, b in _factors(x, weights)]
    # Whatever the layout is: at least one product to a group.
    return _sum(sums, _bias(node, values), weights.shape[0]), activation


def _matrix_product(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """BATCH_MATMUL."""
    options = node.known_options(BatchMatMulOptions)
    first, second = (values(index) for index in node.inputs)
    first = np.swapaxes(first, -1, -2) if options.adj_x else first
    second = np.swapaxes(second, -1, -2) if options.adj_y else second
    sums = [a @ b for a, b in _factors(first, second)]
    groups = -(-second.shape[-2] // _PRODUCTS)
    return _sum(sums, np.zeros(1), groups), Activation.NONE


def _convolution(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """CONV_2D, in groups too."""
    options = node.known_options(ConvOptions)
    x, weights = values(node.inputs[0]), values(node.inputs[1])
    _, kh, kw, covered = weights.shape
    parts = x.shape[3] // covered
    results = [
        _taps_sum(options, lanes, filters.transpose(1, 2, 3, 0), np.matmul)
        for lanes, filters in zip(np.split(x, parts, 3), np.split(weights, parts), strict=True)
    ]
    sums = [np.concatenate(parts, axis=-1) for parts in zip(*results, strict=True)]
    groups = kh * kw * -(-x.shape[3] // _PRODUCTS)
    return _sum(sums, _bias(node, values), groups), options.activation


def _taps_sum(
    options: ConvolutionOptions, x: Array, weights: Array, product: Callable[[Array, Array], Array]
) -> list[Array]:
    """``product`` of what each tap sees and its ``weights``, rows and columns first, summed: of
    ``_factors``.
    """
    kh, kw = weights.shape[:2]
    found = []
    for features, factors in _factors(x, weights):
        _, tap = taps(options, features, kh, kw)
        total = sum(product(tap(i, j), factors[i, j]) for i in range(kh) for j in range(kw))
        found.append(np.asarray(total))
    return found


def _depthwise(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """DEPTHWISE_CONV_2D."""
    options = node.known_options(DepthwiseOptions)
    x, weights = values(node.inputs[0]), values(node.inputs[1])[0]
    kh, kw, _ = weights.shape
    wide = np.repeat(x, options.depth_multiplier, axis=3)
    sums = _taps_sum(options, wide, weights, np.multiply)
    # A multiplier makes a dense convolution of it.
    groups = kh * kw * (1 if options.depth_multiplier == 1 else -(-x.shape[3] // _PRODUCTS))
    return _sum(sums, _bias(node, values), groups), options.activation


def _windows(x: Array, size: Sequence[int], strides: Sequence[int]) -> Array:
    """[images, rows, columns, channels, height, width] of windows within the image."""
    view: Any = np.lib.stride_tricks.sliding_window_view  # NumPy's stubs know one axis only
    every: Array = view(x, tuple(size), (1, 2))
    return every[:, :: strides[0], :: strides[1]]


def _mean(windows: Array) -> Terms:
    """Return the means of windows, see ``_windows``."""
    size = windows.shape[4:]
    # Two for each pixel, two for the factors, and what 22 bits lack of one over their number.
    roundings = 2 * size[0] * size[1] + 4 + 16
    rows = max(size)
    while rows > _MOST_ROWS:  # means of means: a rounding to fp16 more for each
        rows //= max(n for n in range(2, _MOST_PARTS + 1) if rows % n == 0)
        roundings += 2 * _MOST_PARTS**2 + 20 + round(FP16 / FP32)
    return np.nanmean(windows, (4, 5)), np.nanmean(np.abs(windows), (4, 5)), roundings


def _averages(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """AVERAGE_POOL_2D: of the pixels of the image alone."""
    o = node.known_options(PoolOptions)
    return _mean(_pooled(o, values(node.inputs[0]))), o.activation


def _largest(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """MAX_POOL_2D."""
    o = node.known_options(PoolOptions)
    return _chosen(np.nanmax(_pooled(o, values(node.inputs[0])), (4, 5))), o.activation


def _pooled(options: PoolOptions, x: Array) -> Array:
    """Return the windows, NaN where they reach beyond the image."""
    size, strides = (options.filter_h, options.filter_w), (options.stride_h, options.stride_w)
    if options.padding is Padding.SAME:
        sides = zip(x.shape[1:3], size, strides, strict=True)
        added = [max((-(-n // by) - 1) * by + kernel - n, 0) for n, kernel, by in sides]
        amounts = [(0, 0), *((n // 2, n - n // 2) for n in added), (0, 0)]
        x = np.pad(x, amounts, constant_values=np.nan)
    return _windows(x, size, strides)


def _mean_of_image(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """MEAN of rows and columns, or of a line, as a row."""
    x = values(node.inputs[0])
    x = x if x.ndim > 3 else x[:, np.newaxis]
    return _mean(_windows(x, x.shape[1:3], x.shape[1:3])), Activation.NONE


def _highest(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """REDUCE_MAX of rows and columns."""
    x = values(node.inputs[0])
    return _chosen(x.max(tuple(range(1, x.ndim - 1)))), Activation.NONE


def _bilinear(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """RESIZE_BILINEAR: along rows, then along columns, whatever the sizes are."""
    options = node.known_options(ResizeBilinearOptions)
    x = values(node.inputs[0])
    _, *sizes, _ = graph.tensor(node.outputs[0]).shape
    rows, columns = (
        _between(options, x.shape[axis], size) for axis, size in zip((1, 2), sizes, strict=True)
    )
    exact, magnitude = (
        np.einsum("yh,xw,nhwc->nyxc", rows, columns, m, optimize=True) for m in (x, np.abs(x))
    )
    return (exact, magnitude, 2 * 16 + 1), Activation.NONE


def _between(options: ResizeBilinearOptions, size: int, output: int) -> Array:
    """Return how much of each row is in each row of the result."""
    is_aligned = options.align_corners and output > 1
    scale = (size - 1) / (output - 1) if is_aligned else size / output
    shift = 0.5 if options.half_pixel_centers else 0.0
    place = np.maximum((np.arange(output) + shift) * scale - shift, 0)
    lower = np.floor(place).astype(int)
    upper = np.minimum(np.ceil(place).astype(int), size - 1)
    found = np.zeros((output, size))
    np.add.at(found, (np.arange(output), lower), 1 - (place - lower))
    np.add.at(found, (np.arange(output), upper), place - lower)
    return found


def _transposed(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """TRANSPOSE_CONV: every pixel adds its kernel to the result. Inputs are its shape, the weights,
    the pixels and a bias.
    """
    options = node.known_options(TransposeConvOptions)
    weights, x = values(node.inputs[1]), values(node.inputs[2])
    _, height, width, _ = shape = graph.tensor(node.outputs[0]).shape
    outputs, kh, kw, channels = weights.shape
    sh, sw = options.stride_h, options.stride_w
    room = ((x.shape[1] - 1) * sh + kh, (x.shape[2] - 1) * sw + kw)
    pairs = _factors(x, weights)
    sums = [np.zeros((x.shape[0], *np.maximum(room, shape[1:3]), outputs)) for _ in pairs]
    for i in range(kh):
        for j in range(kw):
            rows = slice(i, i + (x.shape[1] - 1) * sh + 1, sh)
            columns = slice(j, j + (x.shape[2] - 1) * sw + 1, sw)
            for total, (features, factors) in zip(sums, pairs, strict=True):
                total[:, rows, columns] += features @ factors[:, i, j].T
    _, top = geometry(height, kh, sh, options.padding)
    _, left = geometry(width, kw, sw, options.padding)
    bias = _bias(node, values, 3)
    cut = (slice(None), slice(top, top + height), slice(left, left + width))
    groups = kh * kw * -(-channels // _PRODUCTS)
    return _sum([total[cut] for total in sums], bias, groups), options.activation


def _padded(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """PAD."""
    amounts = graph.tensor(node.inputs[1]).constant
    assert amounts is not None
    return _chosen(np.pad(values(node.inputs[0]), amounts.astype(np.int64))), Activation.NONE


def _choosing(choose: Callable[..., Array], activation: Activation = Activation.NONE) -> Exact:
    """Return the results of operators whose results are among their inputs' values."""

    def judge(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
        return _chosen(choose(*map(values, node.inputs))), activation

    return judge


def _sloped(x: Array, slope: Array) -> tuple[Terms, Activation]:
    result = np.where(x >= 0, x, x * _halved(slope))
    return (result, np.abs(result), 1), Activation.NONE


def _prelu(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """PRELU."""
    return _sloped(*map(values, node.inputs))


def _leaky(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """LEAKY_RELU."""
    slope = np.array(node.known_options(LeakyReluOptions).alpha)
    return _sloped(values(node.inputs[0]), slope)


def _hard_swish(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """HARD_SWISH."""
    x = values(node.inputs[0])
    result = x * np.clip(x + 3, 0, 6) / 6
    # The sum, three products, and what 22 bits lack of a sixth.
    return (result, np.abs(result), 4 + 16), Activation.NONE


def _curve(function: Callable[[Array], Array], error: float) -> Exact:
    """Return the results of functions of up to 1 by a table that is so far off."""

    def judge(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
        result = function(values(node.inputs[0]))
        return (result, np.ones_like(result), round(error / FP32)), Activation.NONE

    return judge


def _product(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """MUL. Constants are fp16."""
    x, y = (
        part if index in graph.inputs else _halved(part)
        for index, part in ((index, values(index)) for index in node.inputs)
    )
    return (x * y, np.abs(x * y), 1), node.known_options(MulOptions).activation


def _sum_of_two(kind: type[AddOptions | SubOptions], sign: int) -> Exact:
    def judge(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
        x, y = map(values, node.inputs)  # constants are fp32
        terms = x + sign * y, np.abs(x) + np.abs(y), 1
        return terms, node.known_options(kind).activation

    return judge


def _chosen(result: Array) -> Terms:
    """Return the terms of values that are among the inputs."""
    return result, np.abs(result), 0


EXACT: dict[str, Exact] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _dense,
    "BATCH_MATMUL": _matrix_product,
    "TRANSPOSE_CONV": _transposed,
    "ADD": _sum_of_two(AddOptions, 1),
    "SUB": _sum_of_two(SubOptions, -1),
    "MUL": _product,
    "MAXIMUM": _choosing(np.maximum),
    "MINIMUM": _choosing(np.minimum),
    "RELU": _choosing(np.asarray, Activation.RELU),
    "RELU6": _choosing(np.asarray, Activation.RELU6),
    "PRELU": _prelu,
    "LEAKY_RELU": _leaky,
    "HARD_SWISH": _hard_swish,
    "LOGISTIC": _curve(lambda x: 1 / (1 + np.exp(-np.clip(x, -700, 700))), _TABLE),
    "TANH": _curve(np.tanh, _TANH_TABLE),
    "MAX_POOL_2D": _largest,
    "AVERAGE_POOL_2D": _averages,
    "MEAN": _mean_of_image,
    "REDUCE_MAX": _highest,
    "RESIZE_BILINEAR": _bilinear,
    "PAD": _padded,
}
"""The exact results by operator."""
