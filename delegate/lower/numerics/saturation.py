"""Channels that give an end of the outputs' range for every input, brought near that end.

Pruning and converters leave biases at the ends of int32 in channels that hardly vary, and the
stages keep as many bits as the largest accumulator of a layer needs. How far beyond the range a
channel lies changes no result: its bias can be moved towards zero.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, Int64Array
from delegate.lower.numerics.prover import Target
from delegate.lower.numerics.tflite import ratios_of

# Results this far from zero are saturated wherever the zero point is: twice the outputs' span.
OUTPUT_LSB = 2 * (INT8_MAX - INT8_MIN + 1)


def settled(target: Target) -> tuple[Target, Int64Array]:
    """``target`` with channels that are always OUTPUT_LSB and more from zero brought to the first
    accumulator there, and how far each channel's accumulators were moved for it (mostly 0).
    """
    # How far the accumulator nearest to zero is from it; negative where the range includes zero.
    nearest = np.maximum(target.low, -target.high)
    rows = np.flatnonzero(nearest * ratios_of(target.q, target.exponent) > OUTPUT_LSB)
    moved = np.zeros_like(target.q)
    if not rows.size:
        return target, moved
    ends = target.of(rows).first(np.array([1 - OUTPUT_LSB, OUTPUT_LSB]))
    to_below, to_above = ends[:, 0] - 1 - target.high[rows], ends[:, 1] - target.low[rows]
    moved[rows] = np.where(target.low[rows] > 0, to_above, to_below)
    return replace(target, low=target.low + moved, high=target.high + moved), moved
