"""PRELU with several slopes, in two pipelines: products below the zero point, the rest above.

    below    the product of what is below the zero point with its slope, requantised; elsewhere the
             result's zero point
    above    what is above the input's zero point, requantised, and the first one's result in EW

One of both is the zero point, so that the sum is the other one, and is not rounded: EW adds in
units of what OUT_CVT takes for one LSB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from delegate.errors import LoweringError
from delegate.lower.numerics.factors import UNIT_SHIFT
from delegate.lower.numerics.means import requantize_image, sum_target
from delegate.lower.numerics.multiplication import requantize_product
from delegate.lower.numerics.pair_prover import INT8_VALUES
from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    INT8_MIN,
    Ew,
    EwOperation,
    Int64Array,
    Pipeline,
)
from delegate.lower.numerics.tflite import quantize_multiplier, scaled
from delegate.lower.rules import WITHIN_ONE_LSB


@dataclass(frozen=True, eq=False)
class SlopesTarget:
    """The specification of TensorFlow Lite's PRELU. ``factors``: to the result from a value, and
    from its product with a slope, as TensorFlow Lite computes them. int8 ``zero_points`` of input,
    slopes, result; ``slopes``: the constant's values, each once.
    """

    factors: tuple[float, float]
    zero_points: tuple[int, int, int]
    slopes: tuple[int, ...]

    @property
    def wanted(self) -> Int64Array:
        """[value, slope]: the int8 results."""
        values = INT8_VALUES[:, np.newaxis] - self.zero_points[0]
        slopes = np.array(self.slopes, np.int64) - self.zero_points[1]
        above = scaled(np.maximum(values, 0), *quantize_multiplier(self.factors[0]))
        below = scaled(np.minimum(values, 0) * slopes, *quantize_multiplier(self.factors[1]))
        chosen = np.where(values >= 0, above, below) + self.zero_points[2]
        return np.asarray(np.clip(chosen, INT8_MIN, INT8_MAX))


@dataclass(frozen=True, slots=True, eq=False)
class SlopesPipelines:
    """``below`` has slopes in EW, ``above`` what ``below`` gave."""

    below: Pipeline
    above: Pipeline

    def differences(self, target: SlopesTarget) -> Int64Array:
        """[value, slope]: of the results of all values."""
        values = INT8_VALUES[:, np.newaxis].astype(np.float64)
        first = self.below.run(values, np.array(target.slopes, np.float64))
        off: Int64Array = np.abs(self.above.run(values, first) - target.wanted).astype(np.int64)
        return off


def requantize_slopes(node: int, target: SlopesTarget, *, has_ties_away: bool) -> SlopesPipelines:
    """``has_ties_away``: see ``last_roundings``. Raises LoweringError where no pipelines are within
    one LSB, or TensorFlow Lite's int32 wraps.
    """
    source, _, result = target.zero_points
    below = requantize_product(
        node,
        target.factors[1],
        target.zero_points,
        (INT8_MIN, INT8_MAX),
        has_ties_away=has_ties_away,
        slopes=target.slopes,
    ).pipeline
    scales = target.factors[0], 1.0
    plain = requantize_image(
        node, sum_target(1, scales, (source, result)), has_ties_away=has_ties_away
    )
    unit = 1 << max(plain.out.shift - UNIT_SHIFT, 0)
    above = replace(
        plain,
        bs=replace(plain.bs, add=-source),
        bn=replace(plain.bn, relu=True),
        ew=Ew(EwOperation.ADD, offset=-result, scale=unit),
    )
    found = SlopesPipelines(below, above)
    worst = int(found.differences(target).max())
    if worst > 1:
        problem = f"results with {len(target.slopes)} slopes are up to {worst} LSB off"
        raise LoweringError(node, WITHIN_ONE_LSB, problem)
    return found
