"""References of sums, differences and products of two tensors, and of conversions."""

from collections.abc import Callable

import numpy as np

from delegate.model.graph import DType
from delegate.npu.tensor_layout import quantize_multiplies
from rk3588_conformance.reference.arithmetic import Array, Call, quantize_multiplier, scale_by


def _of_both(
    call: Call, shift: int, combine: Callable[[Array, Array], Array], power: int = 1
) -> Array:
    """Combine both operands, scaled by 2^``shift`` and to one scale before, which has
    the ``power`` in the result.
    """
    scales = [call.quantization(place).scale for place in call.places]
    twice = 2 * max(scales)
    first, second = (
        scale_by(call.steps(place) << shift, *quantize_multiplier(scale / twice))
        for place, scale in zip(call.places, scales, strict=True)
    )
    factor = quantize_multiplier(twice**power / ((1 << power * shift) * call.result.scale))
    return scale_by(combine(first, second), *factor) + call.result.zero_point


def add(call: Call) -> Array:
    return _of_both(call, 20, np.add)


def sub(call: Call) -> Array:
    return _of_both(call, 20, np.subtract)


def squared_difference(call: Call) -> Array:
    return _of_both(call, 7, lambda a, b: (a - b) ** 2, power=2)


def mul(call: Call) -> Array:
    """The scales are multiplied and divided as float32."""
    a, b = (np.float32(call.quantization(place).scale) for place in call.places)
    factor = quantize_multiplier(float(a * b / np.float32(call.result.scale)))
    return scale_by(call.steps(0) * call.steps(1), *factor) + call.result.zero_point


def quantize(call: Call) -> Array:
    """Convert float32, or another 8-bit type."""
    target = call.result
    if call.operand().dtype is DType.FLOAT32:
        return _from_float(call.value(), target.scale, target.zero_point)
    multiplier = quantize_multiplier(call.quantization().scale / target.scale)
    return scale_by(call.steps(), *multiplier) + target.zero_point


def _from_float(values: Array, scale: float, zero_point: int) -> Array:
    """C's ``round`` of a quotient of float32, as int32: the processor decides about what is none
    (NumPy uses its instruction too), and the sum wraps. The quotient may be a product with 1 /
    scale, as this platform's kernel has it.
    """
    divisor = np.float32(scale)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        quotient = values * (np.float32(1) / divisor) if quantize_multiplies() else values / divisor
        distance = np.abs(quotient.astype(np.float64))
        rounded = np.copysign(np.floor(distance + 0.5), quotient)  # exact: 24 bits and one more
        whole = rounded.astype(np.float32).astype(np.int32)
        return np.asarray(whole + np.int32(zero_point))


def dequantize(call: Call) -> Array:
    """The product of doubles, then rounded to float32."""
    return np.asarray((call.steps() * call.quantization().scale).astype(np.float32))
