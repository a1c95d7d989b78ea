"""TensorFlow Lite's integer arithmetic on arrays, as its reference kernels define it.

Comes from: raw values and scales. Goes to: operators that are functions of one value, whose tables
are these results. Scales are float32 in files, and kernels divide some of them as such, before
they widen: ``float32_product`` says which way an operator takes. Where C++ leaves the result open
(a shift out of int32, a conversion of a float that no int32 holds), ``UndefinedResultError``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.errors import DelegateError
from delegate.lower.numerics.tflite import quantize_multiplier, scaled, wraps

Values = npt.NDArray[np.int64]

INT16_MAX = (1 << 15) - 1
INT32_MAX = (1 << 31) - 1
_INT16_BITS = 16
_FRACTION_BITS = 31
_KEPT_TABLES = 128
"""More than a detector has: each is asked for again and again while a model is planned."""


class UndefinedResultError(DelegateError):
    """The reference kernels leave the result of an operator undefined."""


@dataclass(frozen=True, slots=True)
class Multiplier:
    """``fraction * 2^(shift - 31)``: a factor as the kernels hold it, rounded to 31 bits."""

    fraction: int
    shift: int


def multiplier_of(factor: float) -> Multiplier:
    """Return the nearest multiplier of a factor of at least 0; its shift may be any above -32."""
    return Multiplier(*quantize_multiplier(factor))


def float32_product(*factors: float, over: float) -> float:
    """Return the product of ``factors`` over ``over``, rounded to float32 after every step."""
    product = np.float32(factors[0])
    with np.errstate(over="ignore", under="ignore"):
        for factor in factors[1:]:
            product = np.float32(product * np.float32(factor))
        result = np.float32(product / np.float32(over))
    if not np.isfinite(result):
        raise UndefinedResultError(f"the ratio of scales {factors} to {over} is no finite float32")
    return float(result)


def float32_root(scale: float, *, times: float) -> float:
    """Return the root of a scale times another, rounded to float32 after every step."""
    product = float(np.float32(np.sqrt(np.float32(scale)) * np.float32(times)))
    if product == 0:
        raise UndefinedResultError(f"the root of {scale} times {times} is no float32")
    return product


def multiply(values: Values, by: Multiplier) -> Values:
    """Return values times a multiplier in two roundings: to a high product, half away from zero for
    positive ones and up for negative ones; then the shift to the right, half away from zero.
    """
    if wraps(values, np.array(by.shift)).any():
        raise UndefinedResultError(f"values shifted by {by.shift} leave int32")
    return scaled(values, by.fraction, by.shift)


def _high_product(values: Values, factor: int | Values, bits: int) -> Values:
    product = values * factor
    half = 1 << (bits - 1)
    nudged = product + np.where(product >= 0, half, 1 - half)
    return towards_zero(nudged, bits)


def high_product32(values: Values, factor: Values) -> Values:
    """Return ``values * factor / 2^31``, rounded as ``multiply`` does. int32 below its limit."""
    return _high_product(values, factor, _FRACTION_BITS)


def high_product16(values: Values, factor: int) -> Values:
    """Return ``values * factor / 2^15``, rounded as ``multiply`` does. int16."""
    return np.minimum(_high_product(values, factor, 15), INT16_MAX)


def towards_zero(values: Values, bits: int) -> Values:
    """Return ``values / 2^bits``, its fraction dropped."""
    return np.where(values >= 0, values >> bits, -(-values >> bits))


def divide_by_power16(values: Values, exponent: int) -> Values:
    """Return ``values / 2^exponent``, half away from zero, in gemmlowp's steps of int16: from
    exponent 16 on its mask is -1, and the result 1 for values of 0 and more, -1 for others.
    """
    mask = (1 << exponent) - 1 if exponent < _INT16_BITS else -1
    threshold = (mask >> 1) + (values < 0)
    return (values >> exponent) + ((values & mask) > threshold)


def round_half_away(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Round to whole numbers."""
    wide = values.astype(np.float64)
    return np.copysign(np.floor(np.abs(wide) + 0.5), wide)


def in_units(steps: npt.NDArray[Any], zero_point: int) -> Values:
    """Return the whole numbers nearest to ``steps`` of the output's scale, ties away from zero, as
    values of the output, not clamped. Raises UndefinedResultError where one is no int32.
    """
    found = round_half_away(steps) + zero_point
    if not (np.abs(found) <= INT32_MAX).all():
        raise UndefinedResultError("a result is no int32 in units of the output's scale")
    return found.astype(np.int64)


def float_table(
    values: Values,
    source: tuple[float, int],
    target: tuple[float, int],
    function: Callable[[float], float],
) -> Values:
    """Return ``function`` by the kernels' way of 8-bit operators that they run through tables of
    their own: float32 in every step. ``source`` and ``target``: scale and zero point. Not clamped.
    """
    return _float_table(values.astype(np.int64).tobytes(), source, target, function).reshape(
        values.shape
    )


@functools.lru_cache(maxsize=_KEPT_TABLES)
def _float_table(
    content: bytes,
    source: tuple[float, int],
    target: tuple[float, int],
    function: Callable[[float], float],
) -> Values:
    values = np.frombuffer(content, np.int64)
    scale, zero_point = source
    inverse = np.float32(1) / np.float32(target[0])
    real = np.float32(scale) * (values - zero_point).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        results = np.array([function(float(value)) for value in real], np.float32)
        made = in_units(results * inverse, target[1])
    made.setflags(write=False)
    return made
