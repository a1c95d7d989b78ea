"""What operators give in exact arithmetic, and how far fp16 may be from it: the judge of the float
families. It shares no code with the compiler.

Everything is computed in float64 from the model's own numbers, the inputs rounded to fp16 as the
host rounds them. Beside each result stands the sum of the magnitudes of its terms, and how many
roundings to fp32 it took: one for every 32 products of a tap, one for adding each such sum, one for
the bias.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.conformance.case import Outside
from delegate.conformance.reference.windows import taps
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

Array = npt.NDArray[Any]
Terms = tuple[Array, Array, int]
"""The exact result before its clamp, the magnitudes in it, the roundings to fp32."""

Judge = Callable[[Graph, Node, Any], tuple[Terms, Activation]]
"""What an operator gives in exact arithmetic; of a graph, its node, and tensors' values by index.
"""

_PRODUCTS = 32
_TABLE = 0.25 * 0.504 / 1536 + 0.0963 / 48**2 / 8 + 2 * 2.0**-15
"""Of the logistic function: half an index at the steepest place, chords instead of the curve, and a
unit each of an entry and of what lies between two.
"""
_TANH_TABLE = 0.504 / 3456 + 0.7699 * (32 / 3456) ** 2 / 8 + 2 * 2.0**-15
"""The same of TANH, which is four times as steep."""
_MOST_ROWS = 31
"""Of a window."""
_MOST_PARTS = 7
_MOST = 65504.0
_INFINITE_FROM = 65520.0
_FP32 = 2.0**-24
_FP16 = 2.0**-11
_SUBNORMAL = 2.0**-25


def judged_by(judge: Judge) -> Outside:
    """Of cases of the operator that ``judge`` knows."""
    return functools.partial(_outside, judge)


def _outside(
    judge: Judge, graph: Graph, inputs: Mapping[int, Array], outputs: Sequence[Array]
) -> list[str]:
    """What is outside the bound, of a graph of one node beside those that make its constants.
    ``judge``: that of the node's operator.
    """
    terms, activation = exact_terms(judge, graph, inputs)
    return _judged(terms, activation, outputs[0].reshape(graph.tensor(graph.outputs[0]).shape))


def exact_terms(
    judge: Judge, graph: Graph, inputs: Mapping[int, Array]
) -> tuple[Terms, Activation]:
    """What ``judge`` says of the only node of ``graph`` that makes no constant."""
    node = next(n for n in graph.nodes if n.outputs[0] in graph.outputs)
    made = {n.outputs[0]: n.inputs[0] for n in graph.nodes if n is not node}

    def values(index: int) -> Array:
        if index in inputs:
            with np.errstate(over="ignore"):
                half = inputs[index].astype(np.float16)
            finite = np.isfinite(inputs[index])
            return np.where(finite, np.clip(half.astype(np.float64), -_MOST, _MOST), half)
        constant = graph.tensor(made.get(index, index)).constant
        assert constant is not None
        return constant.astype(np.float64)

    return judge(graph, node, values)


def _judged(terms: Terms, activation: Activation, ours: Array) -> list[str]:
    exact, magnitude, roundings = (
        np.broadcast_to(np.reshape(terms[0], ours.shape), ours.shape),
        np.reshape(terms[1], ours.shape),
        terms[2],
    )
    before = ((1 + _FP32) ** roundings - 1) * magnitude
    bound = before + _FP16 * (np.abs(exact) + before) + _SUBNORMAL * (roundings > 0)
    wanted = clamped(exact, activation)
    beyond = np.abs(wanted) + bound >= _INFINITE_FROM
    with np.errstate(invalid="ignore"):
        error = np.abs(ours.astype(np.float64) - wanted)
    wrong = ~(error <= bound) & ~beyond
    if activation is not Activation.NONE:  # the clamp ends where fp16 does, at the latest
        wrong |= ~((ours >= 0) & (ours <= clamped(np.array(np.inf), activation)))
    if not wrong.any():
        # Beyond the range: an infinity of the right sign.
        surely = np.abs(wanted) - bound >= _INFINITE_FROM
        wrong = surely & ~(np.isinf(ours) & (np.sign(ours) == np.sign(wanted)))
    if not wrong.any():
        return []
    place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    position = [int(i) for i in place]
    return [
        f"element {position}: {ours[place]} instead of {wanted[place]}, bound {bound[place]}; "
        f"{int(wrong.sum())} of {wrong.size} are outside"
    ]


def clamped(exact: Array, activation: Activation) -> Array:
    """Behind a fused activation, which ends where fp16 does at the latest."""
    if activation is Activation.NONE:
        return exact
    return np.clip(exact, 0.0, 6.0 if activation is Activation.RELU6 else _MOST)


def _bias(graph: Graph, node: Node, values: Any) -> Array:
    has_bias = len(node.inputs) > 2 and node.inputs[2] >= 0
    return np.asarray(values(node.inputs[2])) if has_bias else np.zeros(1)


def _halved(weights: Array) -> Array:
    return weights.astype(np.float16).astype(np.float64)


def _sum(products: Array, weights: Array, x: Array, bias: Array, groups: int) -> Terms:
    return products + bias, np.abs(x) @ np.abs(weights) + np.abs(bias), 2 * groups + 1


def dense(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """FULLY_CONNECTED."""
    activation = node.known_options(FullyConnectedOptions).activation
    weights = _halved(values(node.inputs[1])).T
    x = values(node.inputs[0]).reshape(-1, weights.shape[0])
    # Whatever the layout is: at least one product to a group.
    bias = _bias(graph, node, values)
    return _sum(x @ weights, weights, x, bias, weights.shape[0]), activation


def matrix_product(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """BATCH_MATMUL with one matrix."""
    matrix = _halved(values(node.inputs[1]))
    matrix = matrix.reshape(matrix.shape[-2:])
    if node.known_options(BatchMatMulOptions).adj_y:
        matrix = matrix.T
    x = values(node.inputs[0])
    groups = -(-matrix.shape[0] // _PRODUCTS)
    return _sum(x @ matrix, matrix, x, np.zeros(1), groups), Activation.NONE


def convolution(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """CONV_2D, in groups too."""
    options = node.known_options(ConvOptions)
    x, weights = values(node.inputs[0]), _halved(values(node.inputs[1]))
    outputs, kh, kw, covered = weights.shape
    parts = x.shape[3] // covered
    results = [
        _taps_sum(
            options,
            x[..., part * covered : (part + 1) * covered],
            weights[part * outputs // parts : (part + 1) * outputs // parts],
        )
        for part in range(parts)
    ]
    total, magnitude = (np.concatenate([r[i] for r in results], axis=-1) for i in (0, 1))
    bias = _bias(graph, node, values)
    groups = kh * kw * -(-x.shape[3] // _PRODUCTS)
    return (total + bias, magnitude + np.abs(bias), 2 * groups + 1), options.activation


def _taps_sum(options: ConvolutionOptions, x: Array, weights: Array) -> tuple[Array, Array]:
    _, kh, kw, _ = weights.shape
    _, tap = taps(options, x, kh, kw)
    total = sum(tap(i, j) @ weights[:, i, j].T for i in range(kh) for j in range(kw))
    magnitude = sum(
        np.abs(tap(i, j)) @ np.abs(weights[:, i, j]).T for i in range(kh) for j in range(kw)
    )
    return np.asarray(total), np.asarray(magnitude)


def depthwise(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """DEPTHWISE_CONV_2D."""
    options = node.known_options(DepthwiseOptions)
    x, weights = values(node.inputs[0]), _halved(values(node.inputs[1]))[0]
    kh, kw, _ = weights.shape
    wide = np.repeat(x, options.depth_multiplier, axis=3)
    _, tap = taps(options, wide, kh, kw)
    total = sum(tap(i, j) * weights[i, j] for i in range(kh) for j in range(kw))
    magnitude = sum(np.abs(tap(i, j)) * np.abs(weights[i, j]) for i in range(kh) for j in range(kw))
    bias = _bias(graph, node, values)
    # A multiplier makes a dense convolution of it.
    groups = kh * kw * (1 if options.depth_multiplier == 1 else -(-x.shape[3] // _PRODUCTS))
    terms = np.asarray(total) + bias, np.asarray(magnitude) + np.abs(bias), 2 * groups + 1
    return terms, options.activation


def _windows(x: Array, size: Sequence[int], strides: Sequence[int]) -> Array:
    """[images, rows, columns, channels, height, width] of windows within the image."""
    height, width = size
    rows = range(0, x.shape[1] - height + 1, strides[0])
    columns = range(0, x.shape[2] - width + 1, strides[1])
    found = [[x[:, i : i + height, j : j + width] for j in columns] for i in rows]
    return np.array(found).transpose(2, 0, 1, 5, 3, 4)


def _mean(x: Array, size: Sequence[int], strides: Sequence[int]) -> Terms:
    windows = _windows(x, size, strides)
    pixels = size[0] * size[1]
    # Two for each pixel, two for the factors, and what 22 bits lack of one over their number.
    roundings = 2 * pixels + 4 + 16
    rows = max(size)
    while rows > _MOST_ROWS:  # means of means: a rounding to fp16 more for each
        rows //= max(n for n in range(2, _MOST_PARTS + 1) if rows % n == 0)
        roundings += 2 * _MOST_PARTS**2 + 20 + round(_FP16 / _FP32)
    return np.nanmean(windows, (4, 5)), np.nanmean(np.abs(windows), (4, 5)), roundings


def averages(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """AVERAGE_POOL_2D: of the pixels of the image alone."""
    o = node.known_options(PoolOptions)
    size, strides = (o.filter_h, o.filter_w), (o.stride_h, o.stride_w)
    return _mean(_around(o, values(node.inputs[0])), size, strides), o.activation


def largest(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """MAX_POOL_2D."""
    o = node.known_options(PoolOptions)
    size, strides = (o.filter_h, o.filter_w), (o.stride_h, o.stride_w)
    found = np.nanmax(_windows(_around(o, values(node.inputs[0])), size, strides), (4, 5))
    return _chosen(found), o.activation


def _around(options: PoolOptions, x: Array) -> Array:
    """An image with NaN where windows reach beyond it."""
    if options.padding is not Padding.SAME:
        return x
    sides = ((options.filter_h, options.stride_h), (options.filter_w, options.stride_w))
    added = [
        max((-(-size // by) - 1) * by + kernel - size, 0)
        for size, (kernel, by) in zip(x.shape[1:3], sides, strict=True)
    ]
    amounts = [(0, 0), *((n // 2, n - n // 2) for n in added), (0, 0)]
    return np.pad(x, amounts, constant_values=np.nan)


def mean(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """MEAN of rows and columns."""
    x = values(node.inputs[0])
    return _mean(x, x.shape[1:3], x.shape[1:3]), Activation.NONE


def highest(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """REDUCE_MAX of rows and columns."""
    return _chosen(values(node.inputs[0]).max((1, 2))), Activation.NONE


def bilinear(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """RESIZE_BILINEAR: along rows, then along columns, whatever the sizes are."""
    options = node.known_options(ResizeBilinearOptions)
    x = values(node.inputs[0])
    _, *sizes, _ = graph.tensor(node.outputs[0]).shape
    rows, columns = (
        _between(options, x.shape[axis], size) for axis, size in zip((1, 2), sizes, strict=True)
    )
    exact, magnitude = (np.einsum("yh,xw,nhwc->nyxc", rows, columns, m) for m in (x, np.abs(x)))
    return (exact, magnitude, 2 * 16 + 1), Activation.NONE


def _between(options: ResizeBilinearOptions, size: int, output: int) -> Array:
    """How much of each row is in each row of the result."""
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


def transposed(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """TRANSPOSE_CONV: every pixel adds its kernel to the result. Inputs are its shape, the weights,
    the pixels and a bias.
    """
    options = node.known_options(TransposeConvOptions)
    _, weights, x, *bias = node.inputs
    return _spread(graph, node, values, (x, weights, *bias), options), options.activation


def _spread(
    graph: Graph, node: Node, values: Any, inputs: Sequence[int], options: TransposeConvOptions
) -> Terms:
    x, weights = values(inputs[0]), _halved(values(inputs[1]))
    _, height, width, _ = shape = graph.tensor(node.outputs[0]).shape
    outputs, kh, kw, channels = weights.shape
    sh, sw = options.stride_h, options.stride_w
    room = ((x.shape[1] - 1) * sh + kh, (x.shape[2] - 1) * sw + kw)
    exact, magnitude = (
        np.zeros((x.shape[0], *np.maximum(room, shape[1:3]), outputs)) for _ in "ab"
    )
    for i in range(kh):
        for j in range(kw):
            rows = slice(i, i + (x.shape[1] - 1) * sh + 1, sh)
            columns = slice(j, j + (x.shape[2] - 1) * sw + 1, sw)
            exact[:, rows, columns] += x @ weights[:, i, j].T
            magnitude[:, rows, columns] += np.abs(x) @ np.abs(weights[:, i, j]).T
    top, left = (
        max((-(-size // by) - 1) * by + k - size, 0) // 2 if options.padding is Padding.SAME else 0
        for size, k, by in ((height, kh, sh), (width, kw, sw))
    )
    bias = values(inputs[2]) if len(inputs) > 2 else np.zeros(1)
    cut = (slice(None), slice(top, top + height), slice(left, left + width))
    groups = kh * kw * -(-channels // _PRODUCTS)
    return exact[cut] + bias, magnitude[cut] + np.abs(bias), 2 * groups + 1


def padded(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """PAD."""
    amounts = graph.tensor(node.inputs[1]).constant
    assert amounts is not None
    wide = np.pad(values(node.inputs[0]), [(int(a), int(b)) for a, b in amounts])
    return _chosen(wide), Activation.NONE


def relu(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """RELU."""
    return _chosen(values(node.inputs[0])), Activation.RELU


def relu6(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """RELU6."""
    return _chosen(values(node.inputs[0])), Activation.RELU6


def prelu(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """PRELU."""
    x = values(node.inputs[0])
    result = np.where(x >= 0, x, x * _halved(values(node.inputs[1])))
    return (result, np.abs(result), 1), Activation.NONE


def leaky(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """LEAKY_RELU."""
    slope = np.float16(node.known_options(LeakyReluOptions).alpha)
    x = values(node.inputs[0])
    result = np.where(x >= 0, x, x * float(slope))
    return (result, np.abs(result), 1), Activation.NONE


def hard_swish(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """HARD_SWISH."""
    x = values(node.inputs[0])
    result = x * np.clip(x + 3, 0, 6) / 6
    # The sum, three products, and what 22 bits lack of a sixth.
    return (result, np.abs(result), 4 + 16), Activation.NONE


def logistic(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """LOGISTIC, of a table with an entry every 1/48."""
    x = values(node.inputs[0])
    result = 1 / (1 + np.exp(-np.clip(x, -700, 700)))
    return (result, np.ones_like(result), round(_TABLE / _FP32)), Activation.NONE


def tanh(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """TANH, of a table with an entry every 1/108."""
    result = np.tanh(values(node.inputs[0]))
    return (result, np.ones_like(result), round(_TANH_TABLE / _FP32)), Activation.NONE


def maximum(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """MAXIMUM."""
    x, y = _two(node, values)
    return _chosen(np.maximum(x, y)), Activation.NONE


def minimum(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """MINIMUM."""
    x, y = _two(node, values)
    return _chosen(np.minimum(x, y)), Activation.NONE


def product(graph: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """MUL. Constants are fp16."""
    x, y = (
        part if index in graph.inputs else _halved(part)
        for index, part in zip(node.inputs, _two(node, values), strict=True)
    )
    return (x * y, np.abs(x * y), 1), node.known_options(MulOptions).activation


def total(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """ADD."""
    x, y = _two(node, values)  # constants are fp32
    return (x + y, np.abs(x) + np.abs(y), 1), node.known_options(AddOptions).activation


def difference(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """SUB."""
    x, y = _two(node, values)
    return (x - y, np.abs(x) + np.abs(y), 1), node.known_options(SubOptions).activation


def _two(node: Node, values: Any) -> tuple[Array, Array]:
    return values(node.inputs[0]), values(node.inputs[1])


def _chosen(result: Array) -> Terms:
    """Of values that are among the inputs."""
    return result, np.abs(result), 0
