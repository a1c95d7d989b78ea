"""MEAN and SUM over an image: what the kernels compute, and stages for it.

The reference kernels put the division by the number of values into the multiplier of the scales:
q * 2^(e - 31) becomes (q << s) / n * 2^(e - s - 31), its fraction dropped, with the largest s of
log2 n at most for which the exponent stays representable. The rest is a requantisation of the sum
without zero points, which is all that SUM is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from delegate.errors import LoweringError
from delegate.lower.numerics import one_rounding
from delegate.lower.numerics.factors import UNIT_SCALE, UNIT_SHIFT, pipeline_of
from delegate.lower.numerics.last_rounding import last_roundings
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, Bn, Bs, OutCvt, Pipeline
from delegate.lower.numerics.prover import Target, prove
from delegate.lower.numerics.tflite import quantize_multiplier, wraps
from delegate.lower.numerics.two_roundings import propose_for_all
from delegate.lower.rules import ACCUMULATOR_FITS_INT32, WITHIN_ONE_LSB
from delegate.model.graph import Activation

_MOST_SHIFT = 32
_LEAST_EXPONENT = -31


def mean_target(count: int, scales: tuple[float, float], zero_points: tuple[int, int]) -> Target:
    """Return the specification of a mean of ``count`` values; scales and zero points (int8) of
    input and output.
    """
    q, exponent = quantize_multiplier(scales[0] / scales[1])
    shift = min(count.bit_length() - 1, _MOST_SHIFT, exponent - _LEAST_EXPONENT)
    return _target(count, (q << shift) // count, exponent - shift, zero_points)


def sum_target(count: int, scales: tuple[float, float], zero_points: tuple[int, int]) -> Target:
    """The same of SUM."""
    return _target(count, *quantize_multiplier(scales[0] / scales[1]), zero_points)


def _target(count: int, q: int, exponent: int, zero_points: tuple[int, int]) -> Target:
    low, high = (count * (end - zero_points[0]) for end in (INT8_MIN, INT8_MAX))
    return Target(
        q=np.array([q]),
        exponent=np.array([exponent]),
        low=np.array([low]),
        high=np.array([high]),
        zero_point=zero_points[1],
        outputs=(INT8_MIN, INT8_MAX),
    )


def requantize_image(
    node: int, target: Target, *, has_ties_away: bool = True, rounds_in_bn: bool = True
) -> Pipeline:
    """``has_ties_away``: see ``last_roundings``; ``rounds_in_bn``: BN may make the first rounding.
    Raises LoweringError where TensorFlow Lite's int32 could wrap, or no stages are within one step.
    """
    ends = np.concatenate([target.low, target.high])
    if wraps(ends, np.repeat(target.exponent, 2)).any():
        problem = f"sums reach from {int(target.low[0])} to {int(target.high[0])}"
        raise LoweringError(node, ACCUMULATOR_FITS_INT32, problem)
    best: tuple[int, Pipeline] | None = None
    for pipeline in chain.from_iterable(
        last_roundings(candidate, has_ties_away=has_ties_away)
        for candidate in (_candidates(target) if rounds_in_bn else _without_bn(target))
    ):
        proof = prove(pipeline, target)
        wrong = int(proof.wrong[0])
        if proof.is_within_one_lsb and (best is None or wrong < best[0]):
            best = wrong, pipeline
    if best is None:
        raise LoweringError(node, WITHIN_ONE_LSB, "no stages could be found")
    return best[1]


def _candidates(target: Target) -> Iterator[Pipeline]:
    q, exponent = int(target.q[0]), int(target.exponent[0])
    if q.bit_count() == 1 and exponent <= 0:
        # The first rounding is a shift by so many bits, ties up: a summand of half a unit.
        bits = 32 - q.bit_length()
        out = OutCvt(UNIT_SCALE, UNIT_SHIFT - exponent, target.zero_point)
        yield Pipeline(Bs(), Bn(2, 1, bits + 1), None, out)
    factors = propose_for_all(target)
    if factors is not None:
        yield pipeline_of(factors, Activation.NONE, target.outputs, target.zero_point)


def _without_bn(target: Target) -> Iterator[Pipeline]:
    """``one_rounding``'s, and accumulators that begin early and late."""
    for factors in one_rounding.proposals(target, for_all=True):
        for moved in range(-1, 2):
            one = replace(factors, moved=moved)
            yield pipeline_of(one, Activation.NONE, target.outputs, target.zero_point)
