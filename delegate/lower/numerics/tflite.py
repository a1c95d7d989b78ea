"""Requantisation in TensorFlow Lite's reference kernels, as they compute it.

A real multiplier becomes q * 2^(e - 31) with 2^30 <= q < 2^31 (QuantizeMultiplier), and an
accumulator is multiplied with two roundings (MultiplyByQuantizedMultiplier):

    N   = round(acc * 2^max(e,0) * q / 2^31)       ties up (SaturatingRoundingDoublingHighMul)
    out = round(N / 2^max(-e,0))                   ties away from zero (RoundingDivideByPOT)

All of it in int32: acc * 2^max(e,0) wraps, and so does out + zero point. Accumulators for which one
of them would are excluded by ``wraps``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
from delegate.model.graph import Activation

# Beyond int32: no accumulator reaches this.
_FAR = 1 << 33
# Zero points are int8: a result this far inside int32 does not wrap when one is added.
_ROOM_FOR_ZERO_POINT = 256


def quantize_multiplier(value: float) -> tuple[int, int]:
    """(q, e); (0, 0) for values below 2^-32."""
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
    """``quantize_multiplier`` of each."""
    pairs = np.array([quantize_multiplier(float(v)) for v in values], np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def ratios_of(q: Int64Array, exponent: Int64Array) -> FloatArray:
    """The ratios that they stand for."""
    return np.ldexp(q.astype(np.float64), (exponent - 31).astype(np.int32))


def scaled(accumulators: Int64Array, q: int | Int64Array, exponent: int | Int64Array) -> Int64Array:
    """MultiplyByQuantizedMultiplier of accumulators that do not wrap."""
    product = accumulators * np.left_shift(q, np.maximum(exponent, 0))
    # 2^30 - 1 below zero: C's division towards zero makes the ties go up.
    rounded = (np.abs(product) + np.where(product >= 0, 1 << 30, (1 << 30) - 1)) >> 31
    right = np.maximum(np.negative(exponent), 0)
    result: Int64Array = np.sign(product) * ((rounded + (np.left_shift(1, right) >> 1)) >> right)
    return result


def in_common_units(
    values: Int64Array, scales: Sequence[float], zero_points: Sequence[int], bits: int
) -> tuple[float, Int64Array, Int64Array]:
    """Twice the larger scale, of which ADD and others have ``bits`` bits below the point; and what
    two operands of int8 ``values`` are in those units.
    """
    twice = 2.0 * max(scales)
    first, second = (
        scaled((values - zero_point) << bits, *quantize_multiplier(scale / twice))
        for scale, zero_point in zip(scales, zero_points, strict=True)
    )
    return twice, first, second


def rounded_products(accumulators: Int64Array, ratios: npt.NDArray[np.float64]) -> Int64Array:
    """round(accumulator * ratio), half away from zero: FULLY_CONNECTED of ``Graph.rounds_once``."""
    product = accumulators * ratios
    whole = np.trunc(product)
    away = np.where(np.abs(product - whole) >= 0.5, np.sign(product), 0.0)
    rounded: Int64Array = (whole + away).astype(np.int64)
    return rounded


def first_accumulators(q: Int64Array, exponent: Int64Array, distances: Int64Array) -> Int64Array:
    """[channels, distances]: the least accumulator whose result is ``distances`` from the zero
    point or more; +-2^33 where int32 has none.
    """
    real = ratios_of(q, exponent)[:, np.newaxis]
    magnitude = np.where(distances > 0, distances, 1 - distances)
    with np.errstate(divide="ignore"):
        is_far = (magnitude - 0.5) / real > INT32_MAX
    # Where the step is near, n * 2^31 ~ acc * Q < 2^62: no overflow.
    right = np.clip(-exponent, 0, 31)[:, np.newaxis]
    n = np.where(is_far, 0, (magnitude << right) - (np.left_shift(1, right) >> 1))
    q_shifted = np.maximum(q << np.clip(exponent, 0, 31), 1)[:, np.newaxis]
    above_tie = np.where(distances > 0, 0, 1)
    first = -((-((n << 31) - (1 << 30) + above_tie)) // q_shifted)
    first = np.where(is_far, _FAR, first)
    return np.where(distances > 0, first, 1 - first)


def first_products(ratios: FloatArray, distances: Int64Array) -> Int64Array:
    """The same of a kernel that rounds once."""
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


def wraps(accumulators: Int64Array, exponent: Int64Array) -> npt.NDArray[np.bool_]:
    """Whether int32 does not hold an accumulator, it shifted left, or the result with its zero
    point.
    """
    is_shifted = exponent >= 0  # else results are halved: room for any zero point
    limit = np.where(
        is_shifted, (INT32_MAX - _ROOM_FOR_ZERO_POINT) >> np.clip(exponent, 0, 31), INT32_MAX
    )
    least = np.where(is_shifted, -limit, INT32_MIN)
    return np.asarray((accumulators < least) | (accumulators > limit))


def activation_range(activation: Activation, scale: float, zero_point: int) -> tuple[int, int]:
    """The clamp of a fused activation, in int8 (uint8 tensors: zero point - 128)."""
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
    """round(value / scale) in float32, half away from zero."""
    return math.floor(float(np.float32(value) / np.float32(scale)) + 0.5)
