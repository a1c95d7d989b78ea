"""Averages, means and sums over pixels: one accumulator for all channels.

AVERAGE_POOL_2D divides the sum of raw values by their number, to the nearest, halves away from
zero. BS multiplies by C of 15 bits, OUT_CVT by a scale of 15 bits and shifts: together 2^shift / n,
rounded up. The sum is counted from the least result first, so that only halves upwards matter.

The kernels of MEAN put the division into the multiplier of the scales: q * 2^(e - 31) becomes
(q << s) / n * 2^(e - s - 31), its fraction dropped, with the largest s of log2 n at most for which
the exponent stays representable. The rest is a requantisation of the sum without zero points, which
is all that SUM is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain

import numpy as np

from delegate.errors import LoweringError
from delegate.lower.numerics import one_rounding
from delegate.lower.numerics.factors import (
    FACTOR_BITS,
    LARGEST_FACTOR,
    UNIT_SCALE,
    UNIT_SHIFT,
    pipeline_of,
)
from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    MultiplyStage,
    OutConvert,
    Pipeline,
)
from delegate.lower.numerics.requantize import check_int32, nearest
from delegate.lower.numerics.tflite import Target, quantize_multiplier
from delegate.lower.numerics.two_roundings import propose_for_all
from delegate.lower.rules import WITHIN_ONE_LSB

_TRIES = 64
"""Values of C; the first one does, for nearly all n, and 1 for powers of two."""
_MOST_SHIFT = 32
_LEAST_EXPONENT = -31
_FAR_BITS = 8
"""The power of two that brings every sum but 0 to an end of the results, wherever 0 lies."""


def average_target(count: int, offset: int, outputs: tuple[int, int]) -> Target:
    """Return the specification of an average of ``count`` raw values, which are ``offset`` larger
    than int8 ones.
    """
    return _target(count, *quantize_multiplier(1.0 / count), (-offset, -offset), outputs, count)


def mean_target(count: int, scales: tuple[float, float], zero_points: tuple[int, int]) -> Target:
    """Return the specification of a mean of ``count`` values; scales and zero points (int8) of
    input and output.
    """
    q, exponent = quantize_multiplier(scales[0] / scales[1])
    shift = min(count.bit_length() - 1, _MOST_SHIFT, exponent - _LEAST_EXPONENT)
    return _target(count, (q << shift) // count, exponent - shift, zero_points)


def sum_target(count: int, scales: tuple[float, float], zero_points: tuple[int, int]) -> Target:
    """Return the specification of SUM; see ``mean_target``."""
    return _target(count, *quantize_multiplier(scales[0] / scales[1]), zero_points)


def _target(
    count: int,
    q: int,
    exponent: int,
    zero_points: tuple[int, int],
    outputs: tuple[int, int] = (INT8_MIN, INT8_MAX),
    divisor: int | None = None,
) -> Target:
    low, high = (np.array([count * (end - zero_points[0])]) for end in (INT8_MIN, INT8_MAX))
    multiplier = np.array([q]), np.array([exponent])
    return Target(*multiplier, low, high, zero_points[1], outputs, divisor=divisor)


@cache
def average(
    count: int,
    offset: int,
    outputs: tuple[int, int],
    has_ties_away: bool = True,
    scales_alone: bool = False,
    within_one_lsb: bool = False,
) -> Pipeline | None:
    """Return the stages of ``average_target``, from the sum of raw values. None where none are
    equal, or ``within_one_lsb``. ``scales_alone``: OUT_CVT's scale is tried alone first.
    """
    target = average_target(count, offset, outputs)
    candidates = _quotients(count, offset, outputs, scales_alone)
    found = nearest(candidates, target, has_ties_away=has_ties_away)
    if found is None or not (found.proof.is_equal or within_one_lsb):
        return None
    return found.pipeline if found.proof.is_within_one_lsb else None


def _quotients(
    count: int, offset: int, outputs: tuple[int, int], scales_alone: bool
) -> Iterator[Pipeline]:
    low, high = outputs
    is_clamped = outputs != (INT8_MIN, INT8_MAX)
    # What the result has when BS's value is zero: raw values of uint8 are never below.
    base = low if is_clamped else -offset
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
            MultiplyStage(first, -(base + offset) * count),
            MultiplyStage(relu=is_clamped, relux=limit if is_clamped else None),
            None,
            OutConvert(scale, shift, base, ties_away=True),
        )


def quotient(count: int) -> OutConvert:
    """Return OUT_CVT that divides the sum of ``count`` int8 values, to within half and 2^-7."""
    shift = count.bit_length() + FACTOR_BITS - 2
    return OutConvert(round((1 << shift) / count), shift)


def _rounded_up(shift: int, divisor: int) -> int:
    return -(-(1 << shift) // divisor)


def requantize_image(
    node: int, target: Target, *, has_ties_away: bool = True, rounds_in_bn: bool = True
) -> Pipeline:
    """Return the stages of a mean or a sum. ``has_ties_away``: see ``last_roundings``;
    ``rounds_in_bn``: BN may make the first rounding. Raises LoweringError where TensorFlow Lite's
    int32 could wrap, or no stages are within one step.
    """
    check_int32(node, target)
    candidates = _candidates(target) if rounds_in_bn else _without_bn(target)
    candidates = chain(candidates, _at_ends(target))
    found = nearest(candidates, target, has_ties_away=has_ties_away)
    if found is None or not found.proof.is_within_one_lsb:
        raise LoweringError(node, WITHIN_ONE_LSB, "no stages could be found")
    return found.pipeline


def _at_ends(target: Target) -> Iterator[Pipeline]:
    """Yield the stages of results that are the zero point or an end: of what is zero but for
    rounding, to which quantisers give a scale of 1e-8.
    """
    if float(target.real[0]) > INT8_MAX - INT8_MIN:
        out = OutConvert(UNIT_SCALE, UNIT_SHIFT - _FAR_BITS, target.zero_point, ties_away=True)
        yield Pipeline(MultiplyStage(), MultiplyStage(), None, out)


def _candidates(target: Target) -> Iterator[Pipeline]:
    q, exponent = int(target.q[0]), int(target.exponent[0])
    if q.bit_count() == 1 and exponent <= 0:
        # The first rounding is a shift by so many bits, ties up: a summand of half a unit.
        bits = 32 - q.bit_length()
        out = OutConvert(UNIT_SCALE, UNIT_SHIFT - exponent, target.zero_point, ties_away=True)
        yield Pipeline(MultiplyStage(), MultiplyStage(2, 1, bits + 1), None, out)
    factors = propose_for_all(target)
    if factors is not None:
        yield pipeline_of(factors, target)


def _without_bn(target: Target) -> Iterator[Pipeline]:
    """Yield the pipelines of one rounding, with accumulators that begin early and late."""
    for factors in one_rounding.proposals(target, for_all=True):
        for moved in range(-1, 2):
            yield pipeline_of(replace(factors, moved=moved), target)
