"""Compute float operators in exact arithmetic. It shares no code with the compiler.

Everything is computed in float64 from the model's own numbers, the inputs rounded to fp16 as the
host rounds them. Beside each result stands the sum of the magnitudes of its terms, and how many
roundings to fp32 it took: one for every 32 products of a tap, one for adding each such sum, one for
the bias. Weights of float32 may have become either fp16 beside them; those that are fp16 stay.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.gelu import GeluOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.reference.arithmetic import Call
from rk3588_conformance.reference.selecting import reduce_max
from rk3588_conformance.reference.windows import between, pooled, scattered, tap_sum, windows

Array = npt.NDArray[Any]
Terms = tuple[Array, Array, int] | tuple[Array, Array, int, Array]
"""The exact result before its clamp, the magnitudes in it, the roundings to fp32; what the rounding
of weights may have moved it by.
"""

Exact = Callable[[Call], Terms]
"""The results of an operator in exact arithmetic, from tensors' values in float64."""

FP32 = 2.0**-24
FP16 = 2.0**-11
"""The share of a number by which rounding may move it."""

_MOST = 65504.0
_PRODUCTS = 32
_TABLE = 0.25 * 0.504 / 1536 + 0.0963 / 48**2 / 8 + 2 * 2.0**-15
"""The error of the logistic function's table: half an index at the steepest place, chords instead
of the curve, and a unit each of an entry and of what lies between two.
"""
_TANH_TABLE = 0.504 / 3456 + 0.7699 * (32 / 3456) ** 2 / 8 + 2 * 2.0**-15
"""The same of TANH, which is four times as steep."""
_GELU_TABLE = 0.5 * 0.504 / 3800 + 0.799 * (32 / 3800) ** 2 / 8 + 2 * 2.0**-15
"""The same of what GELU is below RELU."""
_MOST_ROWS = 31
"""The most rows of a window."""
_MOST_PARTS = 7


def _bias(call: Call, place: int = 2) -> Array:
    has_bias = len(call.node.inputs) > place and call.node.inputs[place] >= 0
    return np.asarray(call.value(place)) if has_bias else np.zeros(1)


def to_half(values: Array) -> Array:
    """The nearest fp16."""
    return values.astype(np.float16).astype(np.float64)


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


def _dense(call: Call) -> Terms:
    """FULLY_CONNECTED."""
    weights = call.value(1).T
    x = call.value().reshape(-1, weights.shape[0])
    sums = [a @ b for a, b in _factors(x, weights)]
    # Whatever the layout is: at least one product to a group.
    return _sum(sums, _bias(call), weights.shape[0])


def _matrix_product(call: Call) -> Terms:
    """BATCH_MATMUL."""
    options = call.options(BatchMatMulOptions)
    first, second = (
        np.swapaxes(call.value(place), -1, -2) if is_turned else call.value(place)
        for place, is_turned in enumerate((options.adj_x, options.adj_y))
    )
    sums = [a @ b for a, b in _factors(first, second)]
    return _sum(sums, np.zeros(1), -(-second.shape[-2] // _PRODUCTS))


def _convolution(call: Call) -> Terms:
    """CONV_2D, in groups too."""
    options, x, weights = call.options(ConvOptions), call.value(), call.value(1)
    _, kh, kw, covered = weights.shape
    parts = x.shape[3] // covered
    results = [
        [
            tap_sum(options, *pair, np.matmul)
            for pair in _factors(lanes, filters.transpose(1, 2, 3, 0))
        ]
        for lanes, filters in zip(np.split(x, parts, 3), np.split(weights, parts), strict=True)
    ]
    sums = [np.concatenate(parts, axis=-1) for parts in zip(*results, strict=True)]
    return _sum(sums, _bias(call), kh * kw * -(-x.shape[3] // _PRODUCTS))


def _depthwise(call: Call) -> Terms:
    """DEPTHWISE_CONV_2D."""
    options, x, weights = call.options(DepthwiseOptions), call.value(), call.value(1)[0]
    kh, kw, _ = weights.shape
    wide = np.repeat(x, options.depth_multiplier, axis=3)
    sums = [tap_sum(options, *pair, np.multiply) for pair in _factors(wide, weights)]
    # A multiplier makes a dense convolution of it.
    groups = kh * kw * (1 if options.depth_multiplier == 1 else -(-x.shape[3] // _PRODUCTS))
    return _sum(sums, _bias(call), groups)


def _mean(every: Array) -> Terms:
    """Return the means of ``windows``, of weights that are either fp16 beside one over the number
    of their pixels.
    """
    size = every.shape[4:]
    roundings = 2 * size[0] * size[1] + 1
    magnitude, counts = np.nanmean(np.abs(every), (4, 5)), (~np.isnan(every)).sum((4, 5))
    moved = counts * _gaps(1 / counts)
    rows = max(size)
    while rows > _MOST_ROWS:  # means of means: a rounding to fp16 more for each, and other weights
        rows //= max(n for n in range(2, _MOST_PARTS + 1) if rows % n == 0)
        roundings += 2 * _MOST_PARTS**2 + 1 + round(FP16 / FP32)
        moved = moved + 2 * FP16
    return np.nanmean(every, (4, 5)), magnitude, roundings, magnitude * moved


def _mean_of_channels(x: Array) -> Terms:
    """Return the means, of weights that are either fp16 beside one over their number."""
    count = x.shape[-1]
    exact, size = (part.mean(-1, keepdims=True) for part in (x, np.abs(x)))
    moved = size * count * _gaps(np.array(1 / count))
    return exact, size + moved, 2 * -(-count // _PRODUCTS) + 1, moved


def _mean_of_image(call: Call) -> Terms:
    """MEAN of rows and columns, or of a line, as a row, or of channels."""
    x = call.value()
    if x.ndim - 1 in call.constant(1) % x.ndim:
        return _mean_of_channels(x)
    x = x if x.ndim > 3 else x[:, np.newaxis]
    return _mean(windows(x, x.shape[1:3], x.shape[1:3]))


def _bilinear(call: Call) -> Terms:
    """RESIZE_BILINEAR: along rows, then along columns, whatever the sizes are."""
    options, x = call.options(ResizeBilinearOptions), call.value()
    _, *sizes, _ = call.output.shape
    rows, columns = (
        _shares(options, x.shape[axis], size) for axis, size in zip((1, 2), sizes, strict=True)
    )
    exact, magnitude = (
        np.einsum("yh,xw,nhwc->nyxc", rows, columns, m, optimize=True) for m in (x, np.abs(x))
    )
    return exact, magnitude, 2 * 16 + 1


def _shares(options: ResizeBilinearOptions, size: int, output: int) -> Array:
    """Return how much of each row is in each row of the result."""
    first, second, share = between(options, size, output, np.float64)
    found = np.zeros((output, size))
    np.add.at(found, (np.arange(output), first), 1 - share)
    np.add.at(found, (np.arange(output), second), share)
    return found


def _transposed(call: Call) -> Terms:
    """TRANSPOSE_CONV: every pixel adds its kernel to the result. Inputs are its shape, the weights,
    the pixels and a bias.
    """
    options, weights, x = call.options(TransposeConvOptions), call.value(1), call.value(2)
    _, kh, kw, channels = weights.shape
    sums = [scattered(options, *pair, call.output.shape) for pair in _factors(x, weights)]
    return _sum(sums, _bias(call, 3), kh * kw * -(-channels // _PRODUCTS))


def _chosen(result: Array) -> Terms:
    """Return the terms of values that are among the inputs."""
    return result, np.abs(result), 0


def _operand(call: Call, place: int) -> Array:
    """Return an operand; a constant of several pixels is fp16, of one value or one per channel
    fp32.
    """
    value, index = call.value(place), call.node.inputs[place]
    channels = call.output.shape[-1:]
    is_dense = index in call.graph.inputs or value.size == 1
    is_dense = is_dense or (value.shape[-1:] == channels == (value.size,))
    return value if is_dense else to_half(value)


def _extremum(choose: Callable[[Array, Array], Array]) -> Exact:
    """MAXIMUM and MINIMUM. A constant is taken from the values and added again."""

    def judge(call: Call) -> Terms:
        x, y = (_operand(call, place) for place in (0, 1))
        result = choose(x, y)
        ends = [v for t, v in zip(call.node.inputs, (x, y), strict=True)
                if t not in call.graph.inputs and v.size == 1]  # fmt: skip
        if not ends:
            return _chosen(result)
        return result, np.abs(result) + 2 * abs(float(ends[0].item())), 2

    return judge


def _rounded(result: Array, roundings: int = 1) -> Terms:
    return result, np.abs(result), roundings


def _sloped(x: Array, slope: Array) -> Terms:
    return _rounded(np.where(x >= 0, x, x * to_half(slope)))


def _hard_swish(call: Call) -> Terms:
    """HARD_SWISH: the sum, three products, and what 22 bits lack of a sixth."""
    x = call.value()
    return _rounded(x * np.clip(x + 3, 0, 6) / 6, 4 + 16)


def _curve(function: Callable[[Array], Array], error: float) -> Exact:
    """Return the results of functions of up to 1 by a table that is so far off."""

    def judge(call: Call) -> Terms:
        result = function(call.value())
        return result, np.ones_like(result), round(error / FP32)

    return judge


def _gelu(call: Call) -> Terms:
    """GELU: RELU less what a table gives, which is rounded to fp16 and never above the result."""
    x = call.value()
    size = np.abs(x)
    if call.options(GeluOptions).approximate:
        inner = math.sqrt(2 / math.pi) * (size + 0.044715 * size**3)
        share = (1 - np.tanh(inner)) / 2
    else:
        share = np.vectorize(math.erfc, otypes=[np.float64])(size / math.sqrt(2)) / 2
    result = np.maximum(x, 0) - np.where(share == 0, 0.0, np.minimum(size, _MOST) * share)
    off = np.full_like(result, _GELU_TABLE)
    return result, np.abs(result), 2 + round(FP16 / FP32), off


def _product(call: Call) -> Terms:
    """MUL. Constants are fp16."""
    x, y = (
        call.value(place) if index in call.graph.inputs else to_half(call.value(place))
        for place, index in enumerate(call.node.inputs)
    )
    return _rounded(x * y)


def _squared_distance(call: Call) -> Terms:
    """SQUARED_DIFFERENCE: a rounding of the distance counts twice."""
    return _rounded((call.value(0) - call.value(1)) ** 2, 3 + 2 * round(FP16 / FP32))


def _sum_of_two(sign: int) -> Exact:
    def judge(call: Call) -> Terms:
        x, y = (_operand(call, place) for place in (0, 1))
        return x + sign * y, np.abs(x) + np.abs(y), 1

    return judge


EXACT: dict[str, Exact] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _dense,
    "BATCH_MATMUL": _matrix_product,
    "TRANSPOSE_CONV": _transposed,
    "ADD": _sum_of_two(1),
    "SUB": _sum_of_two(-1),
    "MUL": _product,
    "ABS": lambda call: _chosen(np.abs(call.value())),
    "NEG": lambda call: _chosen(-call.value()),
    "SQUARE": lambda call: _rounded(call.value() ** 2),
    "SQUARED_DIFFERENCE": _squared_distance,
    "MAXIMUM": _extremum(np.maximum),
    "MINIMUM": _extremum(np.minimum),
    "RELU": lambda call: _chosen(call.value()),
    "RELU6": lambda call: _chosen(call.value()),
    "PRELU": lambda call: _sloped(call.value(), call.value(1)),
    "LEAKY_RELU": lambda call: _sloped(
        call.value(), np.array(call.options(LeakyReluOptions).alpha)
    ),
    "HARD_SWISH": _hard_swish,
    "LOGISTIC": _curve(lambda x: 1 / (1 + np.exp(-np.clip(x, -700, 700))), _TABLE),
    "TANH": _curve(np.tanh, _TANH_TABLE),
    "GELU": _gelu,
    "MAX_POOL_2D": lambda call: _chosen(np.nanmax(pooled(call), (4, 5))),
    "AVERAGE_POOL_2D": lambda call: _mean(pooled(call)),  # of the pixels of the image alone
    "MEAN": _mean_of_image,
    "REDUCE_MAX": lambda call: _chosen(reduce_max(call)),
    "RESIZE_BILINEAR": _bilinear,
    "PAD": lambda call: _chosen(np.pad(call.value(), call.constant(1).astype(np.int64))),
}
"""The exact results by operator, before a clamp."""
_CLAMPS = {"RELU": Activation.RELU, "RELU6": Activation.RELU6}
_MOST_OF = {Activation.RELU: _MOST, Activation.RELU6: 6.0}


def most_of(call: Call) -> float | None:
    """Return the most that a clamp leaves of a node's result, the least of which is 0; None: there
    is none. RELU ends where fp16 does, but not behind a sum of two maps, whose task has no such
    end.
    """
    activation = _CLAMPS.get(call.node.op, call.activation)
    if (call.node.op, activation) == ("ADD", Activation.RELU):
        operands = [call.value(n) for n, t in enumerate(call.node.inputs)
                    if t not in call.graph.inputs]  # fmt: skip
        is_small = any(v.size == 1 or v.shape[-1:] == (v.size,) for v in operands)
        return _MOST if is_small else math.inf
    return _MOST_OF.get(activation)
