"""What the references of several operators share: TensorFlow Lite's integer arithmetic.

Accumulators are sums of integers below 2^53 in float64 (exact, whatever the order), multipliers are
32-bit mantissas with an exponent, and a product is rounded twice, first to 2^-31 of the mantissa,
then by the right shift.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Graph, Node, Quantization, Tensor

Array = npt.NDArray[Any]
_SUM_SHIFT = 20
LIMITS = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}
_CLAMPS = {
    Activation.NONE: (None, None),
    Activation.RELU: (0.0, None),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


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


def quantization(tensor: Tensor) -> Quantization:
    assert tensor.quantization is not None, "features and weights are quantised"
    return tensor.quantization


def clamp(activation: Activation, output: Tensor) -> tuple[int, int]:
    """The levels that an activation leaves."""
    low, high = LIMITS[output.dtype]
    q = quantization(output)
    bounds = _CLAMPS[activation]
    levels = [
        None if bound is None else q.zero_point + _round_away(float(np.float32(bound / q.scale)))
        for bound in bounds
    ]
    low = low if levels[0] is None else max(low, levels[0])
    return low, high if levels[1] is None else min(high, levels[1])


def _round_away(value: float) -> int:
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


def requantize(graph: Graph, node: Node, acc: Array, *, in_float: bool = False) -> Array:
    """``acc`` [..., channels] to output levels, before the clamp. ``in_float``: the kernel
    multiplies the scales of one-scale weights in float32; uint8 kernels always do.
    """
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    if len(node.inputs) > 2 and node.inputs[2] >= 0:
        bias = graph.tensor(node.inputs[2]).constant
        assert bias is not None
        acc = acc + bias.astype(np.int64)
    output = quantization(graph.tensor(node.outputs[0]))
    scales = quantization(w).scales
    input_scale = quantization(x).scale
    if len(scales) == 1 and (x.dtype is DType.UINT8 or in_float):
        products = [float(np.float32(input_scale) * np.float32(scales[0]))]  # a float's product
    else:
        products = [input_scale * scale for scale in scales]
    pairs = [quantize_multiplier(product / output.scale) for product in products]
    mantissas, exponents = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return scale_by(acc, mantissas, exponents) + output.zero_point


def round_once(graph: Graph, node: Node, acc: Array) -> Array:
    """``acc`` [..., channels] to output levels by a real factor, rounded half away from zero."""
    x, w = (quantization(graph.tensor(index)) for index in node.inputs[:2])
    output = quantization(graph.tensor(node.outputs[0]))
    if len(node.inputs) > 2 and node.inputs[2] >= 0:
        acc = acc + graph.tensor(node.inputs[2]).constant
    real = acc * (x.scale * np.array(w.scales) / output.scale)
    fraction, whole = np.modf(real)
    whole = whole + np.where(np.abs(fraction) >= 0.5, np.sign(real), 0)
    return np.asarray(whole.astype(np.int64) + output.zero_point)


def operands(graph: Graph, node: Node, values: Mapping[int, Array]) -> tuple[Array, Array]:
    """Input and weights less their zero points, as float64."""
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    assert w.constant is not None
    features = values[node.inputs[0]].astype(np.float64) - quantization(x).zero_point
    return features, w.constant.astype(np.float64) - quantization(w).zero_points[0]


def raw(graph: Graph, index: int, values: Mapping[int, Array]) -> Array:
    """A computed or constant tensor's values as int64."""
    array = values.get(index)
    if array is None:
        array = graph.tensor(index).constant
        assert array is not None
    return array.astype(np.int64)


def less_zero_point(graph: Graph, index: int, values: Mapping[int, Array]) -> Array:
    """``raw`` less the zero point."""
    return raw(graph, index, values) - quantization(graph.tensor(index)).zero_point


def sum_with_signs(
    graph: Graph, node: Node, values: Mapping[int, Array], signs: tuple[int, int]
) -> Array:
    """The kernels scale both operands by 2^20 before they add or subtract them."""
    output = quantization(graph.tensor(node.outputs[0]))
    scales = [quantization(graph.tensor(index)).scale for index in node.inputs]
    twice = 2 * max(scales)
    total: Array = np.zeros((), np.int64)
    for index, scale, sign in zip(node.inputs, scales, signs, strict=True):
        shifted = less_zero_point(graph, index, values) << _SUM_SHIFT
        total = total + sign * scale_by(shifted, *quantize_multiplier(scale / twice))
    scaled = scale_by(total, *quantize_multiplier(twice / ((1 << _SUM_SHIFT) * output.scale)))
    return scaled + output.zero_point
