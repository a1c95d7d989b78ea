"""TensorFlow Lite's and the DPU's integer arithmetic in Python integers, one number at a time."""

import math
import operator
from fractions import Fraction

import numpy as np

from delegate.lower.numerics.pipeline import EwOperation, Pipeline

INT32 = 1 << 31
EW = {
    EwOperation.ADD: operator.add,
    EwOperation.SUBTRACT: operator.sub,
    EwOperation.MULTIPLY: operator.mul,
    EwOperation.MAX: max,
    EwOperation.MIN: min,
}


def wrapped(value: int) -> int:
    """As int32 keeps it."""
    return (value + INT32) % (2 * INT32) - INT32


def quantized(real: float) -> tuple[int, int]:
    """TensorFlow Lite's QuantizeMultiplier."""
    if real == 0:
        return 0, 0
    mantissa, exponent = math.frexp(real)
    q = math.floor(mantissa * INT32 + 0.5)
    if q == INT32:
        q, exponent = q // 2, exponent + 1
    return (0, 0) if exponent < -31 else (q, exponent)


def tflite(accumulator: int, q: int, exponent: int, zero_point: int, outputs: tuple) -> int:
    """Return TensorFlow Lite's result of an int32 accumulator, with every wrap that int32 makes."""
    product = wrapped(accumulator << max(exponent, 0)) * q
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    high = nudged // INT32 if nudged >= 0 else -(-nudged // INT32)  # C divides towards zero
    right = max(-exponent, 0)
    mask = (1 << right) - 1
    threshold = (mask >> 1) + (high < 0)
    scaled = (high >> right) + ((high & mask) > threshold)
    return min(max(wrapped(scaled + zero_point), outputs[0]), outputs[1])


def rounded_once(accumulator: int, ratio: float, zero_point: int, outputs: tuple) -> int:
    """Return the result of a kernel with a double multiplier: C's round, half away from zero."""
    product = Fraction(float(accumulator) * ratio)
    scaled = math.floor(abs(product) + Fraction(1, 2))
    scaled = scaled if product >= 0 else -scaled
    return min(max(scaled + zero_point, outputs[0]), outputs[1])


def half_even(value: int, shift: int) -> int:
    quotient, rest = divmod(value, 1 << shift)
    return quotient + (2 * rest + (quotient & 1) > (1 << shift) if shift else 0)


def half_away(value: int, shift: int) -> int:
    rounded = (abs(value) + ((1 << shift) >> 1)) >> shift
    return rounded if value >= 0 else -rounded


def saturated(value: int) -> int:
    return min(max(value, -INT32), INT32 - 1)


def device(pipeline: Pipeline, channel: int, x: int, e: int = 0) -> int:
    """The DPU's result; saturates as the hardware does."""

    def of(operand):
        return int(operand[channel]) if isinstance(operand, np.ndarray) else operand

    def clamped(stage, value):
        value = max(value, 0) if stage.relu else value
        return value if stage.relux is None else min(value, stage.relux)

    bs, bn, ew, out = pipeline.bs, pipeline.bn, pipeline.ew, pipeline.out
    x = saturated(x + of(bs.add))
    x = clamped(bs, saturated(half_even(x * of(bs.multiply), bs.shift)))
    x = clamped(bn, saturated(half_even(x * of(bn.multiply) + of(bn.add), bn.shift)))
    if ew is not None:
        operand = (e + ew.offset) * ew.scale if ew.operand is None else of(ew.operand)
        x = saturated(EW[ew.operation](x, operand))
        x = clamped(ew, x)
    rounded = (half_away if out.ties_away else half_even)(x * out.scale, out.shift)
    return min(max(rounded + out.offset, -128), 127)
