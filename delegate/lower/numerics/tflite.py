"""Requantisation in TensorFlow Lite's reference kernels, as they compute it.

A real multiplier becomes q * 2^(e - 31) with 2^30 <= q < 2^31 (QuantizeMultiplier), and an
accumulator is multiplied with two roundings (MultiplyByQuantizedMultiplier):

    N   = round(acc * 2^max(e,0) * q / 2^31)       ties up (SaturatingRoundingDoublingHighMul)
    out = round(N / 2^max(-e,0))                   ties away from zero (RoundingDivideByPOT)

All of it in int32: acc * 2^max(e,0) wraps, and so does out + zero point. Accumulators for which one
of them would are excluded by ``wraps``.

Specify what TensorFlow Lite computes: from one accumulator, or from a pair of int8 values.

Nothing here knows the DPU. ``tflite`` has the kernels' arithmetic; ``prover`` compares a pipeline
with a specification.

Between which values an accumulator lies, whatever the input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    INT32_MIN,
    FloatArray,
    Int64Array,
)
from delegate.model.cached import cached_property
from delegate.model.graph import Activation

# Beyond int32: no accumulator reaches this.
_FAR = 1 << 33
# Zero points are int8: a result this far inside int32 does not wrap when one is added.
_ROOM_FOR_ZERO_POINT = 256
_CHANNELS_AT_ONCE = 64
SUM_BITS = 20
"""Bits that the kernels of ADD and SUB give both operands below the unit."""
SQUARE_BITS = 7
"""The same of SQUARED_DIFFERENCE."""


def quantize_multiplier(value: float) -> tuple[int, int]:
    """Return (q, e) of a real multiplier; (0, 0) of one below 2^-32."""
    if value == 0.0:
        return 0, 0
    mantissa, exponent = math.frexp(value)
    q = math.floor(mantissa * (1 << 31) + 0.5)
    if q == 1 << 31:
        q, exponent = q // 2, exponent + 1
    if exponent < -31:
        return 0, 0
    return q, exponent


def quantize_multipliers(values: npt.NDArray[np.float64]) -> tuple[Int64Array, Int64Array]:
    """Return q and e of each real multiplier; see ``quantize_multiplier``."""
    mantissas, powers = np.frexp(values)
    q, exponent = np.floor(np.ldexp(mantissas, 31) + 0.5).astype(np.int64), powers.astype(np.int64)
    is_whole = q == 1 << 31
    exponent += is_whole
    is_least = exponent < -31
    return np.where(is_least, 0, np.where(is_whole, q // 2, q)), np.where(is_least, 0, exponent)


def ratios_of(q: Int64Array, exponent: Int64Array) -> FloatArray:
    """Return the real multipliers that q and e stand for."""
    return np.ldexp(q.astype(np.float64), (exponent - 31).astype(np.int32))


def scaled(accumulators: Int64Array, q: int | Int64Array, exponent: int | Int64Array) -> Int64Array:
    """Return MultiplyByQuantizedMultiplier of accumulators that do not wrap."""
    product = accumulators * np.left_shift(q, np.maximum(exponent, 0))
    # 2^30 - 1 below zero: C's division towards zero makes the ties go up.
    rounded = (np.abs(product) + np.where(product >= 0, 1 << 30, (1 << 30) - 1)) >> 31
    right = np.maximum(np.negative(exponent), 0)
    result: Int64Array = np.sign(product) * ((rounded + (np.left_shift(1, right) >> 1)) >> right)
    return result


def weighted_sum(
    operands: Sequence[Int64Array],
    scales: Sequence[float],
    zero_points: Sequence[int],
    signs: tuple[int, int],
) -> Int64Array:
    """Return ADD or SUB of two operands, which count with ``signs``, before the result's zero
    point: scaled once more, from units with SUM_BITS bits below the point. ``scales``: of both
    operands and the result.
    """
    twice, first, second = _in_common_units(operands, scales[:2], zero_points, SUM_BITS)
    output = quantize_multiplier(twice / ((1 << SUM_BITS) * scales[2]))
    return scaled(signs[0] * first + signs[1] * second, *output)


def squared_difference(
    operands: Sequence[Int64Array], scales: Sequence[float], zero_points: Sequence[int]
) -> Int64Array:
    """Return SQUARED_DIFFERENCE of two operands, before the result's zero point; see
    ``weighted_sum``.
    """
    twice, first, second = _in_common_units(operands, scales[:2], zero_points, SQUARE_BITS)
    factor = twice * twice / ((1 << (2 * SQUARE_BITS)) * scales[2])
    return scaled((first - second) ** 2, *quantize_multiplier(factor))


def _in_common_units(
    operands: Sequence[Int64Array],
    scales: Sequence[float],
    zero_points: Sequence[int],
    bits: int,
) -> tuple[float, Int64Array, Int64Array]:
    """Return twice the larger scale, of which the kernels have ``bits`` bits below the point; and
    what the operands are in those units.
    """
    twice = 2.0 * max(scales)
    first, second = (
        scaled((values - zero_point) << bits, *quantize_multiplier(scale / twice))
        for values, scale, zero_point in zip(operands, scales, zero_points, strict=False)
    )
    return twice, first, second


def rounded_products(accumulators: Int64Array, ratios: npt.NDArray[np.float64]) -> Int64Array:
    """Return round(accumulator * ratio), half away from zero: FULLY_CONNECTED of
    ``Graph.rounds_once``.
    """
    product = accumulators * ratios
    whole = np.trunc(product)
    away = np.where(np.abs(product - whole) >= 0.5, np.sign(product), 0.0)
    rounded: Int64Array = (whole + away).astype(np.int64)
    return rounded


def first_accumulators(q: Int64Array, exponent: Int64Array, distances: Int64Array) -> Int64Array:
    """Return, as [channels, distances], the least accumulator whose result is ``distances`` from
    the zero point or more; +-2^33 where int32 has none.
    """
    real = ratios_of(q, exponent)[:, np.newaxis]
    magnitude = np.where(distances > 0, distances, 1 - distances)
    with np.errstate(divide="ignore"):
        is_far = (magnitude - 0.5) / real > INT32_MAX
    # Where the step is near, n * 2^31 ~ acc * Q < 2^62: no overflow.
    right = np.clip(-exponent, 0, 31)[:, np.newaxis]
    q_shifted = np.maximum(q << np.clip(exponent, 0, 31), 1)[:, np.newaxis]
    # n * 2^31 = magnitude * 2^(r + 31) - half
    half = np.left_shift(1, right) >> 1 << 31
    above_tie = np.where(distances > 0, 0, 1)
    first = -((half + (1 << 30) - above_tie - (magnitude << right + 31)) // q_shifted)
    first = np.where(is_far, _FAR, first)
    return np.where(distances > 0, first, 1 - first)


def first_products(ratios: FloatArray, distances: Int64Array) -> Int64Array:
    """Return the first accumulators of a kernel that rounds once; see ``first_accumulators``."""
    magnitude = np.where(distances > 0, distances, 1 - distances) - 0.5
    real = ratios[:, np.newaxis]
    is_far = magnitude / real > INT32_MAX
    near = np.where(is_far, 0, np.rint(magnitude / np.where(is_far, 1.0, real)))
    # The product rises with the accumulator, and is off by less than one of them.
    first = near - 1.0
    for _ in range(2):
        first = np.where(first * real < magnitude, first + 1.0, first)
    first = np.where(is_far, _FAR, first).astype(np.int64)
    return np.where(distances > 0, first, 1 - first)


def quotients(accumulators: Int64Array, divisor: int) -> Int64Array:
    """Return C's division, which drops fractions, of accumulators moved by half the divisor: to the
    nearest, half away from zero.
    """
    result: Int64Array = (np.abs(accumulators) + divisor // 2) // divisor
    return np.sign(accumulators) * result


def first_quotients(divisor: int, distances: Int64Array) -> Int64Array:
    """Return the first accumulators of a kernel that divides, as [1, distances]."""
    magnitude = np.where(distances > 0, distances, 1 - distances)
    first = magnitude * divisor - divisor // 2
    return np.where(distances > 0, first, 1 - first)[np.newaxis]


def wraps(accumulators: Int64Array, exponent: Int64Array) -> npt.NDArray[np.bool_]:
    """Return whether int32 does not hold an accumulator, it shifted left, or the result with its
    zero point.
    """
    is_shifted = exponent >= 0  # else results are halved: room for any zero point
    limit = np.where(
        is_shifted, (INT32_MAX - _ROOM_FOR_ZERO_POINT) >> np.clip(exponent, 0, 31), INT32_MAX
    )
    least = np.where(is_shifted, -limit, INT32_MIN)
    return np.asarray((accumulators < least) | (accumulators > limit))


def activation_range(activation: Activation, scale: float, zero_point: int) -> tuple[int, int]:
    """Return the clamp of a fused activation, in int8 (uint8 tensors: zero point - 128)."""
    low, high = INT8_MIN, INT8_MAX
    if activation in (Activation.RELU, Activation.RELU6):
        low = max(low, zero_point)
    if activation is Activation.RELU6:
        high = min(high, zero_point + _steps(6.0, scale))
    if activation is Activation.RELU_N1_TO_1:
        low = max(low, zero_point - _steps(1.0, scale))
        high = min(high, zero_point + _steps(1.0, scale))
    return low, high


def _steps(value: float, scale: float) -> int:
    """Return round(value / scale) in float32, half away from zero."""
    return math.floor(float(np.float32(value) / np.float32(scale)) + 0.5)


INT8_VALUES = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Target:
    """A function of one accumulator per channel, which rises with it.

    The kernel rounds twice, by the multiplier ``q`` and ``exponent``. Two kernels differ, and have
    both for their real multiplier only: one rounds the product with ``ratios`` once, in double; one
    divides by ``divisor``.
    """

    q: Int64Array
    exponent: Int64Array
    low: Int64Array
    """[channels]: the least accumulator over every input, bias included."""
    high: Int64Array
    """[channels]: the largest one."""
    zero_point: int
    outputs: tuple[int, int]
    """The least and the largest int8 result."""
    ratios: FloatArray | None = None
    divisor: int | None = None
    activation: Activation = Activation.NONE
    """The fused activation, which ``outputs`` include."""

    @cached_property
    def real(self) -> FloatArray:
        """Return the real multiplier of each channel."""
        return ratios_of(self.q, self.exponent)

    @property
    def early(self) -> FloatArray:
        """Return how early results of each channel begin by the kernel's first rounding, in LSB:
        by so much more than half a step may a result be off.
        """
        if self.ratios is not None:
            return np.zeros_like(self.real)
        return np.ldexp(0.5, np.minimum(self.exponent, 0).astype(np.int32))

    @property
    def magnitude(self) -> Int64Array:
        """Return the largest magnitude of an accumulator of each channel."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def ends(self) -> FloatArray:
        """Return the least and the largest accumulator: [channels, 2]."""
        return np.stack([self.low, self.high], axis=1).astype(np.float64)

    @property
    def firsts(self) -> Int64Array:
        """Return the least accumulator that gives each output, or more: [channels, outputs but the
        least].
        """
        distances = np.arange(self.outputs[0] + 1, self.outputs[1] + 1) - self.zero_point
        return np.concatenate([self.of(part).first(distances) for part in self.parts])

    @property
    def parts(self) -> list[slice]:
        """Return channels at a time: what a core's cache holds of their outputs."""
        starts = range(0, self.q.size, _CHANNELS_AT_ONCE)
        return [slice(start, start + _CHANNELS_AT_ONCE) for start in starts]

    def first(self, distances: Int64Array) -> Int64Array:
        """Return, as [channels, distances], the least accumulator whose result is ``distances``
        from the zero point or more; +-2^33 where int32 has none.
        """
        if self.divisor is not None:
            return first_quotients(self.divisor, distances)
        if self.ratios is not None:
            return first_products(self.ratios, distances)
        return first_accumulators(self.q, self.exponent, distances)

    def stretches(self) -> tuple[Int64Array, Int64Array]:
        """Return, as [channels, outputs], the first and the last accumulator in range that give
        each output; the last is before the first where none does.
        """
        low, high = self.low[:, np.newaxis], self.high[:, np.newaxis]
        inside = np.minimum(np.maximum(self.firsts, low), high + 1)
        begins = np.concatenate([low, inside, high + 1], axis=1)
        return begins[:, :-1], begins[:, 1:] - 1

    def results(self, accumulators: Int64Array) -> Int64Array:
        """Return the results of accumulators [channels] or [channels, values], before the zero
        point is added.
        """
        if self.divisor is not None:
            return quotients(accumulators, self.divisor)
        each = (slice(None), *(np.newaxis,) * (accumulators.ndim - 1))
        if self.ratios is not None:
            return rounded_products(accumulators, self.ratios[each])
        return scaled(accumulators, self.q[each], self.exponent[each])

    def __eq__(self, other: object) -> bool:
        names = (field.name for field in fields(self))
        return isinstance(other, Target) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in names
        )

    def __hash__(self) -> int:
        return hash((self.low.tobytes(), self.high.tobytes()))

    def of(self, channels: npt.NDArray[np.intp] | slice) -> Target:
        """Return the specification of some channels."""
        each = {name: getattr(self, name) for name in ("q", "exponent", "low", "high", "ratios")}
        return replace(self, **{n: v[channels] for n, v in each.items() if v is not None})

    def widest(self) -> Target:
        """Return the specification of channels that share one multiplier: one channel with the
        accumulators of all. What is true for each of its accumulators is true in every channel.
        """
        low, high = self.low.min(keepdims=True), self.high.max(keepdims=True)
        return replace(self.of(slice(1)), low=low, high=high)


@dataclass(frozen=True, eq=False)
class PairTarget:
    """A function of two int8 values, as the table of its results."""

    wanted: Int64Array
    """[first, second]: the int8 results."""
    seconds: Int64Array = field(default_factory=lambda: INT8_VALUES)
    """The values of the second operand; the first one has all."""

    @property
    def operands(self) -> tuple[FloatArray, FloatArray]:
        """Return the values of both operands, so that each meets each."""
        return INT8_VALUES[:, np.newaxis].astype(np.float64), self.seconds.astype(np.float64)


# Weights of 16 bits that are summed at a time: 64 KB, what a core's first cache holds.
_BLOCK_TERMS = 1 << 15


AccumulatorBounds = tuple[Int64Array, Int64Array]
"""The least and the largest accumulator of each output channel over every input, bias included."""


TermSums = tuple[Int64Array, Int64Array]
"""The exact sums, per output channel, of its weights without their zero point, and of their
magnitudes.
"""


def term_sums(weights: npt.NDArray[np.int8], zero_point: int) -> TermSums:
    """Sum ``weights`` [channels, terms]. In blocks: a wider copy of all of them would be the most
    of what lowering takes.
    """
    total, magnitude = np.empty(len(weights), np.int64), np.empty(len(weights), np.int64)
    step = max(1, _BLOCK_TERMS // max(weights.shape[1], 1))
    for first in range(0, len(weights), step):
        # 9 bits without the zero point, so int16 is enough.
        part = weights[first : first + step].astype(np.int16)
        part -= np.int16(zero_point)
        total[first : first + step] = part.sum(axis=1, dtype=np.int64)
        magnitude[first : first + step] = np.abs(part).sum(axis=1, dtype=np.int64)
    return total, magnitude


def accumulator_bounds(
    sums: TermSums, bias: Int64Array, input_zero_point: int
) -> AccumulatorBounds:
    """Return the bounds of sum(w * (x - zero_point)) + bias for int8 x."""
    total, magnitude = sums
    positive, negative = (total + magnitude) // 2, (total - magnitude) // 2
    x_low, x_high = INT8_MIN - input_zero_point, INT8_MAX - input_zero_point
    # Padding contributes x = zero point, i.e. nothing: x_low <= 0 <= x_high covers it.
    return (
        bias + positive * x_low + negative * x_high,
        bias + positive * x_high + negative * x_low,
    )
