"""Between which values an accumulator lies, whatever the input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, Int64Array

# Weights of 16 bits that are summed at a time: 64 KB, what a core's first cache holds.
_BLOCK_TERMS = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class AccumulatorBounds:
    """Exact bounds of the accumulator per output channel over every possible input, bias
    included.
    """

    low: Int64Array
    high: Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class TermSums:
    """Per output channel the exact sum of its weights without their zero point, and of their
    magnitudes.
    """

    total: Int64Array
    magnitude: Int64Array


def term_sums(weights: npt.NDArray[np.int8], zero_point: int) -> TermSums:
    """``weights``: [channels, terms]. In blocks: a wider copy of all of them would be the most of
    what lowering takes.
    """
    total, magnitude = np.empty(len(weights), np.int64), np.empty(len(weights), np.int64)
    step = max(1, _BLOCK_TERMS // max(weights.shape[1], 1))
    for first in range(0, len(weights), step):
        # 9 bits without the zero point, so int16 is enough.
        part = weights[first : first + step].astype(np.int16)
        part -= np.int16(zero_point)
        total[first : first + step] = part.sum(axis=1, dtype=np.int64)
        magnitude[first : first + step] = np.abs(part).sum(axis=1, dtype=np.int64)
    return TermSums(total, magnitude)


def accumulator_bounds(
    sums: TermSums, bias: Int64Array, input_zero_point: int
) -> AccumulatorBounds:
    """Bounds of sum(w * (x - zero_point)) + bias for int8 x."""
    positive = (sums.total + sums.magnitude) // 2
    negative = (sums.total - sums.magnitude) // 2
    x_low, x_high = INT8_MIN - input_zero_point, INT8_MAX - input_zero_point
    # Padding contributes x = zero point, i.e. nothing: x_low <= 0 <= x_high covers it.
    return AccumulatorBounds(
        bias + positive * x_low + negative * x_high, bias + positive * x_high + negative * x_low
    )
