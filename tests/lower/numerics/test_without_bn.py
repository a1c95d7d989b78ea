"""Requantisation without BN's multiplier: within a step for every accumulator, and nearer than the
plain way, counted over all of them by TensorFlow Lite's own arithmetic in whole numbers.
"""

from __future__ import annotations

import numpy as np
import pytest

from delegate.lower.numerics import one_rounding
from delegate.lower.numerics.bounds import AccumulatorBounds
from delegate.lower.numerics.factors import pipeline_of
from delegate.lower.numerics.prover import prove
from delegate.lower.numerics.requantize import requantize, target_of
from delegate.lower.numerics.tflite import quantize_multipliers
from delegate.model.graph import Activation
from tests.lower.numerics import oracle

LOW, HIGH = -30_000, 45_000


def differing(pipeline, ratios, zero_point, outputs) -> list[float]:
    """Of each channel: the share of accumulators whose result is another, and none by two."""
    q, exponent = quantize_multipliers(ratios)
    accumulators = np.arange(LOW, HIGH, 7)
    found = pipeline.run(np.broadcast_to(accumulators, (len(ratios), accumulators.size)))
    shares = []
    for channel in range(len(ratios)):
        wanted = [
            oracle.tflite(int(a), int(q[channel]), int(exponent[channel]), zero_point, outputs)
            for a in accumulators
        ]
        off = np.abs(found[channel] - wanted)
        assert off.max() <= 1
        shares.append(float(np.mean(off > 0)))
    return shares


def chosen(ratios, outputs, zero_point, *, per_channel, activation):
    bounds = AccumulatorBounds(
        np.full(len(ratios), LOW, np.int64), np.full(len(ratios), HIGH, np.int64)
    )
    scale = 6 / (outputs[1] - outputs[0]) if activation is Activation.RELU6 else 0.1
    result = requantize(
        0, ratios, bounds, per_channel=per_channel, activation=activation, output_scale=scale,
        output_zero_point=zero_point, rounds_in_bn=False, is_sampled=True,
        has_ties_away=False,
    )  # fmt: skip
    target = target_of(ratios, bounds, zero_point, outputs, rounds_once=False)
    plain = one_rounding.propose(target)
    return result, pipeline_of(plain, activation, outputs, zero_point), target


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
def test_one_factor_is_nearer_than_the_plain_way(activation):
    """Two roundings of which the first goes by 15 bits, against one."""
    ours, before = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        ratios = np.full(1, 2.0 ** rng.uniform(-9, -5))
        zero_point = -128 if activation is Activation.RELU else int(rng.integers(-60, 60))
        result, plain, target = chosen(
            ratios, (-128, 127), zero_point, per_channel=False, activation=activation
        )
        assert result.proof.is_within_one_lsb
        assert prove(result.pipeline, target).is_within_one_lsb
        ours += differing(result.pipeline, ratios, zero_point, (-128, 127))
        before += differing(plain, ratios, zero_point, (-128, 127))
        assert ours[-1] <= before[-1] + 5e-4
    assert np.mean(ours) <= 0.4 * np.mean(before), (ours, before)


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
def test_factors_per_channel_are_nearer_than_the_plain_way(activation):
    """All channels share one unit, so not all of them can be."""
    ours, before = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        ratios = 2.0 ** rng.uniform(-10, -5, 6)
        zero_point = -128 if activation is Activation.RELU else int(rng.integers(-60, 60))
        result, plain, _ = chosen(
            ratios, (-128, 127), zero_point, per_channel=True, activation=activation
        )
        assert result.proof.is_within_one_lsb
        ours += differing(result.pipeline, ratios, zero_point, (-128, 127))
        before += differing(plain, ratios, zero_point, (-128, 127))
    assert np.mean(ours) < np.mean(before), (ours, before)
