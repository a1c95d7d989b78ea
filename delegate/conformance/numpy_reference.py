"""TensorFlow Lite's integer arithmetic in NumPy: exact, for models too large for its own kernels.

Written from the definition of the reference kernels, independently of ``lower``: accumulators are
sums of integers below 2^53 in float64 (exact, whatever the order), multipliers are 32-bit mantissas
with an exponent, and a product is rounded twice, first to 2^-31 of the mantissa, then by the right
shift. A seeded sample of the suite proves it equal to the kernels themselves.

Takes CONV_2D (not grouped), DEPTHWISE_CONV_2D, FULLY_CONNECTED and ADD of feature maps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.graph import (
    Activation,
    AddOptions,
    ConvOptions,
    DepthwiseOptions,
    DType,
    FullyConnectedOptions,
    Graph,
    Node,
    Padding,
    Quantization,
    Tensor,
)

Array = npt.NDArray[Any]
_LIMITS = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}
_CLAMPS = {
    Activation.NONE: (None, None),
    Activation.RELU: (0.0, None),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}
_ADD_LEFT_SHIFT = 20


def supports(graph: Graph) -> bool:
    """Whether ``compute`` can run every node of ``graph``."""
    return all(node.op in _OPERATORS and not _is_grouped(graph, node) for node in graph.nodes)


def macs(graph: Graph) -> int:
    """Multiplications of all convolutions and fully connected layers."""
    total = 0
    for node in graph.nodes:
        if node.op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            shape = graph.tensor(node.inputs[1]).shape
            outputs = math.prod(graph.tensor(node.outputs[0]).shape)
            total += outputs * math.prod(shape) // shape[3 if node.op.startswith("DEPTH") else 0]
    return total


def compute(graph: Graph, inputs: Mapping[int, Array]) -> list[Array]:
    """The outputs of ``graph`` for arrays by tensor index. Raises KeyError for other operators."""
    values = compute_all(graph, inputs)
    return [values[index] for index in graph.outputs]


def compute_all(graph: Graph, inputs: Mapping[int, Array]) -> dict[int, Array]:
    """All tensors that are not constant, the inputs too, by index."""
    values = dict(inputs)
    for node in graph.nodes:
        output = graph.tensor(node.outputs[0])
        wide = _OPERATORS[node.op](graph, node, values)
        low, high = _clamp(node, output)
        kind = np.int8 if output.dtype is DType.INT8 else np.uint8
        values[node.outputs[0]] = np.clip(wide, low, high).astype(kind).reshape(output.shape)
    return values


def quantize_multiplier(real: float) -> tuple[int, int]:
    """``real`` as a mantissa in 2^30..2^31-1 and an exponent: real ~ mantissa * 2^(exponent-31)."""
    if real == 0:
        return 0, 0
    fraction, exponent = math.frexp(real)
    mantissa = math.floor(fraction * 2**31 + 0.5)
    if mantissa == 2**31:
        mantissa //= 2
        exponent += 1
    return (0, 0) if exponent < -31 else (mantissa, exponent)


def scale_by(value: Array, mantissa: Array | int, exponent: Array | int) -> Array:
    """The reference kernels' product of int32 ``value`` with a multiplier, rounded twice."""
    exponent = np.asarray(exponent, np.int64)
    product = (value << np.maximum(exponent, 0)) * np.asarray(mantissa, np.int64)
    nudge = np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = _divide_towards_zero(product + nudge, 1 << 31)
    shift = np.maximum(-exponent, 0)
    mask = (np.int64(1) << shift) - 1
    remainder = high & mask
    return np.asarray((high >> shift) + (remainder > (mask >> 1) + (high < 0)))


def _divide_towards_zero(value: Array, divisor: int) -> Array:
    return np.asarray(np.where(value >= 0, value // divisor, -(-value // divisor)))


def _quantization(tensor: Tensor) -> Quantization:
    assert tensor.quantization is not None, "features and weights are quantised"
    return tensor.quantization


def _clamp(node: Node, output: Tensor) -> tuple[int, int]:
    low, high = _LIMITS[output.dtype]
    q = _quantization(output)
    options = node.options
    assert isinstance(options, (ConvOptions, DepthwiseOptions, FullyConnectedOptions, AddOptions))
    bounds = _CLAMPS[options.activation]
    levels = [
        None if bound is None else q.zero_point + _round_away(float(np.float32(bound / q.scale)))
        for bound in bounds
    ]
    low = low if levels[0] is None else max(low, levels[0])
    return low, high if levels[1] is None else min(high, levels[1])


def _round_away(value: float) -> int:
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


def _requantize(graph: Graph, node: Node, acc: Array) -> Array:
    """``acc`` [..., channels] to output levels, before the clamp."""
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    if len(node.inputs) > 2 and node.inputs[2] >= 0:
        bias = graph.tensor(node.inputs[2]).constant
        assert bias is not None
        acc = acc + bias.astype(np.int64)
    output = _quantization(graph.tensor(node.outputs[0]))
    scales = _quantization(w).scales
    input_scale = _quantization(x).scale
    if len(scales) == 1 and (x.dtype is DType.UINT8 or node.op == "FULLY_CONNECTED"):
        products = [float(np.float32(input_scale) * np.float32(scales[0]))]  # a float's product
    else:
        products = [input_scale * scale for scale in scales]
    pairs = [quantize_multiplier(product / output.scale) for product in products]
    mantissas, exponents = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return scale_by(acc, mantissas, exponents) + output.zero_point


def _operands(graph: Graph, node: Node, values: Mapping[int, Array]) -> tuple[Array, Array]:
    """Input and weights less their zero points, as float64."""
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    assert w.constant is not None
    features = values[node.inputs[0]].astype(np.float64) - _quantization(x).zero_point
    return features, w.constant.astype(np.float64) - _quantization(w).zero_points[0]


def _geometry(size: int, kernel: int, stride: int, dilation: int, same: bool) -> tuple[int, int]:
    """Output size and padding before."""
    reach = (kernel - 1) * dilation + 1
    output = -(-size // stride) if same else (size - reach) // stride + 1
    return output, max((output - 1) * stride + reach - size, 0) // 2


def _taps(
    options: ConvOptions | DepthwiseOptions, features: Array, kh: int, kw: int
) -> tuple[tuple[int, int], Callable[[int, int], Array]]:
    """Output height and width, and the input that a kernel position meets in every output pixel."""
    n, h, w, channels = features.shape
    same = options.padding is Padding.SAME
    rows, top = _geometry(h, kh, options.stride_h, options.dilation_h, same)
    columns, left = _geometry(w, kw, options.stride_w, options.dilation_w, same)
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


def _conv_2d(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    assert isinstance(node.options, ConvOptions)
    features, weights = _operands(graph, node, values)
    outputs, kh, kw, channels = weights.shape
    (rows, columns), tap = _taps(node.options, features, kh, kw)
    acc = np.zeros((features.shape[0] * rows * columns, outputs))
    for y in range(kh):
        for x in range(kw):
            acc += tap(y, x).reshape(-1, channels) @ weights[:, y, x].T
    wide = np.rint(acc).astype(np.int64).reshape(features.shape[0], rows, columns, outputs)
    return _requantize(graph, node, wide)


def _depthwise(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    assert isinstance(node.options, DepthwiseOptions)
    features, weights = _operands(graph, node, values)
    _, kh, kw, outputs = weights.shape
    features = np.repeat(features, outputs // features.shape[3], axis=3)
    (rows, columns), tap = _taps(node.options, features, kh, kw)
    acc = np.zeros((features.shape[0], rows, columns, outputs))
    for y in range(kh):
        for x in range(kw):
            acc += tap(y, x) * weights[0, y, x]
    return _requantize(graph, node, np.rint(acc).astype(np.int64))


def _fully_connected(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    assert isinstance(node.options, FullyConnectedOptions)
    features, weights = _operands(graph, node, values)
    acc = features.reshape(-1, weights.shape[1]) @ weights.T
    return _requantize(graph, node, np.rint(acc).astype(np.int64))


def _add(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    assert isinstance(node.options, AddOptions)
    quantizations = [_quantization(graph.tensor(index)) for index in node.inputs]
    output = _quantization(graph.tensor(node.outputs[0]))
    twice = 2 * max(q.scale for q in quantizations)
    total: Array = np.zeros((), np.int64)
    for index, q in zip(node.inputs, quantizations, strict=True):
        array = values.get(index)
        if array is None:
            array = graph.tensor(index).constant
            assert array is not None
        shifted = (array.astype(np.int64) - q.zero_point) << _ADD_LEFT_SHIFT
        total = total + scale_by(shifted, *quantize_multiplier(q.scale / twice))
    scaled = scale_by(total, *quantize_multiplier(twice / ((1 << _ADD_LEFT_SHIFT) * output.scale)))
    return scaled + output.zero_point


_OPERATORS: dict[str, Callable[[Graph, Node, Mapping[int, Array]], Array]] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "ADD": _add,
}


def _is_grouped(graph: Graph, node: Node) -> bool:
    if node.op != "CONV_2D":
        return False
    return graph.tensor(node.inputs[0]).shape[3] != graph.tensor(node.inputs[1]).shape[3]
