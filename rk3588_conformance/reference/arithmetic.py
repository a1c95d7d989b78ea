"""TensorFlow Lite's integer arithmetic, for the references of several operators.

Accumulators are sums of integers below 2^53 in float64 (exact, whatever the order), multipliers are
32-bit mantissas with an exponent, and a product is rounded twice, first to 2^-31 of the mantissa,
then by the right shift.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Graph, Node, Quantization, Tensor
from delegate.model.operator_options import Options
from delegate.ops.operator import GraphFacts

Array = npt.NDArray[Any]
Kind = TypeVar("Kind", bound=Options)
LIMITS = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}
_CLAMPS = {
    Activation.NONE: (None, None),
    Activation.RELU: (0.0, None),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A node that is asked for its result. ``values``: of the tensors that are computed before it,
    by index; none where only the node's form is asked about. ``place``: of an operand among the
    node's inputs.
    """

    graph: Graph
    node: Node
    values: Mapping[int, Array]

    @property
    def places(self) -> range:
        """Return the places of all operands."""
        return range(len(self.node.inputs))

    def operand(self, place: int = 0) -> Tensor:
        return self.graph.tensor(self.node.inputs[place])

    def options(self, kind: type[Kind]) -> Kind:
        return self.node.known_options(kind)

    @property
    def activation(self) -> Activation:
        """Return the fused activation."""
        options = GraphFacts(self.graph).options(self.node)
        found: Activation = getattr(options, "activation", Activation.NONE)
        return found

    @property
    def output(self) -> Tensor:
        return self.graph.tensor(self.node.outputs[0])

    def quantization(self, place: int = 0) -> Quantization:
        """An operand's."""
        return quantization(self.operand(place))

    @property
    def result(self) -> Quantization:
        """The result's."""
        return quantization(self.output)

    def constant(self, place: int) -> Array:
        found = self.operand(place).constant
        assert found is not None
        return found

    def value(self, place: int = 0) -> Array:
        """An operand's elements, computed or constant."""
        found = self.values.get(self.node.inputs[place])
        return self.constant(place) if found is None else found

    def steps(self, place: int = 0) -> Array:
        """``value`` less the zero point, as int64."""
        return self.value(place).astype(np.int64) - self.quantization(place).zero_point

    def bias(self) -> Array | int:
        """The third operand of what is weighted; 0 where there is none."""
        has_bias = len(self.node.inputs) > 2 and self.node.inputs[2] >= 0
        return self.constant(2).astype(np.int64) if has_bias else 0


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
    nudged = product + nudge
    # Towards zero: the sign bit adds the divisor less 1.
    high = (nudged + ((nudged >> 63) & ((1 << 31) - 1))) >> 31
    return shifted(high, np.maximum(-exponent, 0))


def shifted(value: Array, bits: Array | int) -> Array:
    """Return ``value`` divided by 2^``bits``, ties away from zero."""
    mask = (np.int64(1) << np.asarray(bits)) - 1
    return np.asarray((value >> bits) + ((value & mask) > (mask >> 1) + (value < 0)))


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


def requantize(call: Call, acc: Array, *, in_float: bool = False) -> Array:
    """``acc`` [..., channels] to output levels, before the clamp. ``in_float``: the kernel
    multiplies the scales of one-scale weights in float32; uint8 kernels always do.
    """
    scales, input_scale = call.quantization(1).scales, call.quantization().scale
    if len(scales) == 1 and (call.operand().dtype is DType.UINT8 or in_float):
        products = [float(np.float32(input_scale) * np.float32(scales[0]))]  # a float's product
    else:
        products = [input_scale * scale for scale in scales]
    pairs = [quantize_multiplier(product / call.result.scale) for product in products]
    mantissas, exponents = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return scale_by(acc + call.bias(), mantissas, exponents) + call.result.zero_point


def round_once(call: Call, acc: Array) -> Array:
    """``acc`` [..., channels] to output levels by a real factor, rounded half away from zero."""
    scales = np.array(call.quantization(1).scales)
    real = (acc + call.bias()) * (call.quantization().scale * scales / call.result.scale)
    fraction, whole = np.modf(real)
    whole = whole + np.where(np.abs(fraction) >= 0.5, np.sign(real), 0)
    return np.asarray(whole.astype(np.int64) + call.result.zero_point)


def operands(call: Call) -> tuple[Array, Array]:
    """Input and weights less their zero points, as float64."""
    weights = call.value(1).astype(np.float64) - call.quantization(1).zero_points[0]
    return call.steps().astype(np.float64), weights
