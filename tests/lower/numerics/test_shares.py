"""How many results differ where a chip multiplies once: the sample against all accumulators."""

from __future__ import annotations

import numpy as np
import pytest

from delegate.lower.numerics import one_rounding
from delegate.lower.numerics.bounds import AccumulatorBounds
from delegate.lower.numerics.factors import pipeline_of
from delegate.lower.numerics.requantize import target_of
from delegate.model.graph import Activation


def _counted(pipeline, target, channels):
    """Of every third accumulator whose result lies within the outputs, evenly."""
    wrong = total = 0
    for channel in range(channels):
        one = slice(channel, channel + 1)
        some, stages = target.of(one), pipeline.of(one)
        values = np.arange(int(some.low[0]), int(some.high[0]), 3)
        wanted = target.of(np.full(values.size, channel)).results(values) + target.zero_point
        inside = (wanted > target.outputs[0]) & (wanted < target.outputs[1])
        found = stages.run(values[np.newaxis])[0]
        wrong += int((found != wanted)[inside].sum())
        total += int(inside.sum())
    return wrong / total


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("samples", [one_rounding.COMPARED_SAMPLES, 1 << 16])
def test_an_output_near_a_tie_does_not_count_for_all_channels(seed, samples):
    """Channels' scales are of one power of two: a place of a sample that were the same in all of
    them, in steps, would be near a tie in all or none.
    """
    channels, rng = 48, np.random.default_rng(seed)
    ratios = rng.uniform(2.0**-9, 2.0**-8, channels)
    reach = np.full(channels, 1 << 17, np.int64)
    zero_point = int(rng.integers(-20, 20))
    target = target_of(
        ratios, AccumulatorBounds(-reach, reach), zero_point, (-128, 127), rounds_once=False
    )
    factors = one_rounding.proposals(target, for_all=False)
    for one in (factors[0], factors[-1]):
        pipeline = pipeline_of(one, Activation.NONE, (-128, 127), zero_point)
        share = one_rounding.share_differing(pipeline, target, samples)
        counted = _counted(pipeline, target, channels)
        noise = 4 * np.sqrt(max(counted, 1e-3) / samples)
        assert abs(share - counted) < 0.0006 + noise
