"""Tests how many results differ where a chip multiplies once: a sample against all accumulators."""

import numpy as np
import pytest

from delegate.lower.numerics import one_rounding
from delegate.lower.numerics.factors import pipeline_of
from delegate.lower.numerics.requantize import target_of


def _counted(pipeline, target, channels):
    """Count the differences over every third accumulator whose result lies within the outputs."""
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


@pytest.mark.parametrize("zero_point", [-12, -10, -6, -3, -2, 4])
def test_an_output_near_a_tie_does_not_count_for_all_channels(zero_point):
    """Scales are of one power of two, BS rounds to TensorFlow Lite's unit, and ties alone differ,
    and what 15 bits leave. Places of a sample that were the same in all channels, in steps, would
    be near a tie in all of them or none. A sample of 8,192 is
    taken to be right within a factor of two.
    """
    channels, rng = 64, np.random.default_rng(abs(zero_point))
    ratios = rng.uniform(2.0**-10, 2.0**-9, channels)
    reach = np.full(channels, 1 << 18, np.int64)
    bounds = (-reach, reach)
    target = target_of(ratios, bounds, 0.1, zero_point)
    factors = one_rounding.proposals(target, for_all=False)[-1]
    pipeline = pipeline_of(factors, target)
    share = one_rounding.share_differing(target)(pipeline)
    assert 1e-4 < share < 2 * _counted(pipeline, target, channels)
