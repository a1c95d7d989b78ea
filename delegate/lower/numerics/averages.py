"""The average of n values as TensorFlow Lite's reference kernels compute it, by one rounding.

AVERAGE_POOL_2D divides the sum of raw values by their number, to the nearest, halves away from
zero. BS adds what makes the least result zero and multiplies by C of 15 bits, OUT_CVT by a scale of
15 bits and shifts, halves away from zero: together 2^shift / n, rounded up. Whether that is equal
is not argued: every sum that n values can have is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from delegate.lower.numerics.factors import FACTOR_BITS, LARGEST_FACTOR
from delegate.lower.numerics.last_rounding import last_roundings
from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    Bn,
    Bs,
    Int64Array,
    OutCvt,
    Pipeline,
)

_TRIES = 64
"""Values of C; the first one does, for nearly all n, and 1 for powers of two."""


@dataclass(frozen=True, slots=True)
class AverageTarget:
    """``count`` values of int8, which stand for raw ones that are ``offset`` larger. ``outputs``:
    least and largest int8 result.
    """

    count: int
    offset: int
    outputs: tuple[int, int]

    @property
    def sums(self) -> Int64Array:
        """All sums of int8 values."""
        return np.arange(INT8_MIN * self.count, INT8_MAX * self.count + 1, dtype=np.int64)

    @property
    def results(self) -> Int64Array:
        """Return the result of each sum: C's division, which drops fractions, of a sum moved by
        half the count.
        """
        raw = self.sums + self.offset * self.count
        moved = np.abs(raw) + self.count // 2
        averages: Int64Array = np.sign(raw) * (moved // self.count) - self.offset
        return np.clip(averages, *self.outputs)


def is_equal(pipeline: Pipeline, target: AverageTarget) -> bool:
    """For every sum."""
    sums = target.sums[np.newaxis].astype(np.float64)
    if not pipeline.rises() or not pipeline.fits_int32(sums[:, [0, -1]]):
        return False
    return bool(np.array_equal(pipeline.run(sums)[0], target.results))


@cache
def average(
    target: AverageTarget, has_ties_away: bool = True, scales_alone: bool = False
) -> Pipeline | None:
    """None where no setting was found. ``has_ties_away``: see ``last_roundings``.
    ``scales_alone``: OUT_CVT's scale is tried alone first.
    """
    candidates = (
        found
        for candidate in _candidates(target, scales_alone)
        for found in last_roundings(candidate, has_ties_away=has_ties_away)
    )
    return next((found for found in candidates if is_equal(found, target)), None)


def _candidates(target: AverageTarget, scales_alone: bool) -> Iterator[Pipeline]:
    low, high = target.outputs
    count = target.count
    is_clamped = (low, high) != (INT8_MIN, INT8_MAX)
    # What the result has when BS's value is zero: raw values of uint8 are never below.
    base = low if is_clamped else -target.offset
    reach = max(abs(INT8_MIN - base), abs(INT8_MAX - base)) * count
    largest = min(LARGEST_FACTOR, INT32_MAX // reach)
    factors = (*range(largest, max(largest - _TRIES, 1), -1), 1)
    for first in (1, *factors) if scales_alone else factors:
        shift = (first * count).bit_length() + FACTOR_BITS - 1
        scale = _rounded_up(shift, first * count)
        if scale > LARGEST_FACTOR:
            shift -= 1
            scale = _rounded_up(shift, first * count)
        limit = (high - base) * count * first
        yield Pipeline(
            Bs(-base * count, first),
            Bn(relu=is_clamped, relux=limit if is_clamped else None),
            None,
            OutCvt(scale, shift, base),
        )


def _rounded_up(shift: int, divisor: int) -> int:
    return -(-(1 << shift) // divisor)
