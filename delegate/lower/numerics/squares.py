"""SQUARED_DIFFERENCE of two int8 operands: distances of 8 bits, whose squares are a table.

    over, under   a - b and b - a in units of a step, from 0 to 255 each, less 128
    distance      the larger one: one of both is 0
    table         the result of each distance

A step is what makes 255 of them the largest distance that there is, or whose square the result's
type holds. Where both operands have one scale, and that is no less than a step, it is the step and
all results are TensorFlow Lite's; else a distance stands for several pairs of operands, and has the
result in the middle of theirs. All pairs are tried.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from delegate.errors import LoweringError
from delegate.lower.numerics.addition import requantize_sum
from delegate.lower.numerics.pair_prover import INT8_VALUES
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, Int64Array, Pipeline
from delegate.lower.numerics.tflite import in_common_units, quantize_multiplier, scaled
from delegate.lower.rules import WITHIN_ONE_LSB
from delegate.model.graph import Activation

BITS = 7
"""The bits that the kernel gives values below the unit."""
_DISTANCES = INT8_MAX - INT8_MIN


@dataclass(frozen=True, slots=True)
class SquareTarget:
    """The specification of TensorFlow Lite's SQUARED_DIFFERENCE. ``scales`` and int8
    ``zero_points`` of first, second, result.
    """

    scales: tuple[float, float, float]
    zero_points: tuple[int, int, int]

    @property
    def factor(self) -> float:
        """Return the factor from a squared difference, in the kernel's units, to the result."""
        twice = 2.0 * max(self.scales[:2])
        return twice * twice / ((1 << (2 * BITS)) * self.scales[2])

    @property
    def wanted(self) -> Int64Array:
        """[first, second]: the int8 results of all pairs."""
        operands = self.scales[:2], self.zero_points[:2]
        _, first, second = in_common_units(INT8_VALUES, *operands, BITS)
        squares = (first[:, np.newaxis] - second) ** 2
        results = scaled(squares, *quantize_multiplier(self.factor)) + self.zero_points[2]
        return np.asarray(np.clip(results, INT8_MIN, INT8_MAX))

    @property
    def step(self) -> float:
        """Return the step of a distance."""
        reals = [
            (INT8_VALUES[[0, -1]] - zero_point) * scale
            for scale, zero_point in zip(self.scales[:2], self.zero_points[:2], strict=True)
        ]
        there = float(np.abs(np.subtract.outer(*reals)).max())
        held = math.sqrt((INT8_MAX + 0.5 - self.zero_points[2]) * self.scales[2])
        least = min(there, held) / _DISTANCES
        first, second, _ = self.scales
        return first if first == second and first >= least else least


@dataclass(frozen=True, slots=True, eq=False)
class SquarePipelines:
    """``over`` and ``under``: of the operands; ``function``: the table's results for -128 to 127.
    ``wrong`` of all pairs have a result that is one step off.
    """

    over: Pipeline
    under: Pipeline
    function: bytes
    wrong: int


@functools.lru_cache(maxsize=64)
def requantize_squares(
    node: int, target: SquareTarget, *, has_ties_away: bool, has_clamps: bool
) -> SquarePipelines:
    """``has_ties_away``, ``has_clamps``: see ``requantize_sum``. Raises LoweringError where a
    distance stands for results that are more than two steps apart.
    """
    scales = (*target.scales[:2], target.step)
    zero_points = (*target.zero_points[:2], INT8_MIN)
    over, under = (
        requantize_sum(
            node,
            scales,
            zero_points,
            Activation.NONE,
            signs,
            has_ties_away=has_ties_away,
            has_clamps=has_clamps,
        ).pipeline
        for signs in ((1, -1), (-1, 1))
    )
    first, second = INT8_VALUES[:, np.newaxis].astype(np.float64), INT8_VALUES.astype(np.float64)
    distances = np.maximum(over.run(first, second), under.run(first, second)).astype(np.int64)
    counts = np.zeros((_DISTANCES + 1, _DISTANCES + 1), np.int64)
    np.add.at(counts, ((distances - INT8_MIN).ravel(), (target.wanted - INT8_MIN).ravel()), 1)
    found = [_middle(row) for row in counts]
    if None in found:
        problem = "a distance of 8 bits stands for results that are more than two steps apart"
        raise LoweringError(node, WITHIN_ONE_LSB, problem)
    results = np.array(found, np.int64)
    wrong = int(counts.sum() - counts[np.arange(_DISTANCES + 1), results].sum())
    function = (results + INT8_MIN).astype(np.int8).tobytes()
    return SquarePipelines(over, under, function, wrong)


def _middle(counts: Int64Array) -> int | None:
    """Return the most frequent of the results that is no more than a step from any; None: there is
    none.
    """
    there = np.flatnonzero(counts)
    if not there.size:
        return 0
    low, high = max(int(there[-1]) - 1, 0), min(int(there[0]) + 1, _DISTANCES)
    return None if low > high else low + int(np.argmax(counts[low : high + 1]))
