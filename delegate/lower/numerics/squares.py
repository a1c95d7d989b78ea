"""SQUARED_DIFFERENCE of two int8 operands: distances of 8 bits, whose squares are a table.

    over, under   a - b and b - a in units of a step, from 0 to 255 each, less 128
    distance      the larger one: one of both is 0
    table         the result of each distance

A step is what makes 255 of them the largest distance that there is, or whose square the result's
type holds. Where both operands have one scale, and that is no less than a step, it is the step and
all results are TensorFlow Lite's; else a distance stands for several pairs of operands, and has the
result in the middle of theirs. All pairs are tried. Which pairs share a distance hangs on the step:
where those of the largest results are too different, one that is little longer is tried.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from delegate.errors import LoweringError
from delegate.lower.numerics.addition import requantize_sum
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, Int64Array, Pipeline
from delegate.lower.numerics.prover import Proof, prove_results
from delegate.lower.numerics.tflite import INT8_VALUES, PairTarget, squared_difference
from delegate.lower.rules import WITHIN_ONE_LSB
from delegate.model.graph import Activation

_DISTANCES = INT8_MAX - INT8_MIN

_LONGER = tuple(1 + number / 256 for number in range(17))
"""So many times as long a step may be: by a sixteenth the square grows by an eighth, and results at
the top would lie that much further apart."""


Stages = tuple[Pipeline, Pipeline, bytes]
"""The pipelines over and under, and the table's results for -128 to 127."""


def square_target(
    scales: tuple[float, float, float], zero_points: tuple[int, int, int]
) -> PairTarget:
    """Return the specification; ``scales`` and int8 ``zero_points`` of first, second, result."""
    operands = INT8_VALUES[:, np.newaxis], INT8_VALUES
    results = squared_difference(operands, scales, zero_points) + zero_points[2]
    return PairTarget(np.clip(results, INT8_MIN, INT8_MAX))


def _step(scales: tuple[float, float, float], zero_points: tuple[int, int, int]) -> float:
    """Return the step of a distance."""
    reals = [
        (INT8_VALUES[[0, -1]] - zero_point) * scale
        for scale, zero_point in zip(scales[:2], zero_points[:2], strict=True)
    ]
    there = float(np.abs(np.subtract.outer(*reals)).max())
    held = math.sqrt((INT8_MAX + 0.5 - zero_points[2]) * scales[2])
    least = min(there, held) / _DISTANCES
    first, second, _ = scales
    return first if first == second and first >= least else least


@functools.lru_cache(maxsize=64)
def requantize_squares(
    node: int,
    scales: tuple[float, float, float],
    zero_points: tuple[int, int, int],
    *,
    has_ties_away: bool,
) -> tuple[Stages, Proof]:
    """Return the stages and their proof; parameters as of ``square_target`` and ``requantize_sum``.
    Raises LoweringError where a distance stands for results that are more than two steps apart.
    """
    step, target = _step(scales, zero_points), square_target(scales, zero_points)
    for longer in _LONGER:
        over, under = (
            requantize_sum(
                node,
                (*scales[:2], step * longer),
                (*zero_points[:2], INT8_MIN),
                Activation.NONE,
                signs,
                has_ties_away=has_ties_away,
            ).pipeline
            for signs in ((1, -1), (-1, 1))
        )
        function, proof = _function(over, under, target)
        if proof.is_within_one_lsb:
            return (over, under, function), proof
    problem = "a distance of 8 bits stands for results that are more than two steps apart"
    raise LoweringError(node, WITHIN_ONE_LSB, problem)


def _function(over: Pipeline, under: Pipeline, target: PairTarget) -> tuple[bytes, Proof]:
    """Return the results of all distances, and what all three stages make of all pairs."""
    several = [one.checked(*target.operands) for one in (over, under)]
    distances = np.maximum(*(results for results, _ in several)).astype(np.int64) - INT8_MIN
    counts = np.zeros((_DISTANCES + 1, _DISTANCES + 1), np.int64)
    np.add.at(counts, (distances.ravel(), (target.wanted - INT8_MIN).ravel()), 1)
    found = [_middle(row) for row in counts]
    function = np.array(found, np.int64) + INT8_MIN
    is_sound = all(fits for _, fits in several)
    proof = prove_results(function[distances].astype(np.float64), is_sound, target)
    return function.astype(np.int8).tobytes(), proof


def _middle(counts: Int64Array) -> int:
    """Return the most frequent of the results that is no more than a step from any, where there is
    one.
    """
    there = np.flatnonzero(counts)
    if not there.size:
        return 0
    low, high = max(int(there[-1]) - 1, 0), min(int(there[0]) + 1, _DISTANCES)
    return low + int(np.argmax(counts[low : high + 1])) if low <= high else low
