"""Requantisation without BN's multiplier: within a step for every accumulator, and nearer than the
plain way, counted over all of them by TensorFlow Lite's own arithmetic in whole numbers.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from delegate.errors import LoweringError
from delegate.lower import conv_stages
from delegate.lower.numerics import one_rounding
from delegate.lower.numerics.factors import pipeline_of
from delegate.lower.numerics.prover import prove
from delegate.lower.numerics.requantize import Ways, requantize, target_of
from delegate.lower.numerics.tflite import quantize_multipliers
from delegate.lower.rules import MULTIPLIERS_KEEP_BITS
from delegate.model.graph import Activation
from tests.lower.numerics import oracle

LOW, HIGH = -30_000, 45_000


def differing(pipeline, ratios, zero_point, outputs) -> list[float]:
    """Return, for each channel, the share of accumulators whose result is another, none by two."""
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
    bounds = np.full(len(ratios), LOW, np.int64), np.full(len(ratios), HIGH, np.int64)
    scale = 6 / (outputs[1] - outputs[0]) if activation is Activation.RELU6 else 0.1
    target = target_of(ratios, bounds, scale, zero_point, activation)
    ways = Ways(rounds_twice=False, ties_away=False)
    result = requantize(0, target, per_channel=per_channel, ways=ways)
    plain = one_rounding.propose(target)
    return result, pipeline_of(plain, target), target


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
@pytest.mark.parametrize(("channels", "seeds", "share"), [(1, 6, 0.4), (6, 4, 0.999)])
def test_factors_are_nearer_than_the_plain_way(channels, seeds, share, activation):
    """Two roundings of which the first goes by 15 bits, against one. Channels share one unit, so
    not all of them can be.
    """
    ours, before = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        ratios = 2.0 ** rng.uniform(-10, -5, channels)
        zero_point = -128 if activation is Activation.RELU else int(rng.integers(-60, 60))
        result, plain, target = chosen(
            ratios, (-128, 127), zero_point, per_channel=channels > 1, activation=activation
        )
        assert result.proof.is_within_one_lsb
        assert prove(result.pipeline, target).is_within_one_lsb
        ours += differing(result.pipeline, ratios, zero_point, (-128, 127))
        before += differing(plain, ratios, zero_point, (-128, 127))
        assert channels > 1 or ours[-1] <= before[-1] + 5e-4
    assert np.mean(ours) <= share * np.mean(before), (ours, before)


def test_one_multiplier_is_told_by_two_factors():
    """22 bits of it and more, where BS's factor alone has 15."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        ratio = 2.0 ** rng.uniform(-12, -1)
        bounds = np.array([LOW]), np.array([HIGH])
        target = target_of(np.array([ratio]), bounds, 0.1, 0)
        (factors,) = one_rounding.by_two_factors(target)
        assert 1 << 14 <= factors.scale < 1 << 15
        assert 0 < int(factors.first[0]) < 1 << 15
        told = int(factors.first[0]) * factors.scale
        told /= 2.0 ** (factors.bs_shift + factors.unit_bits + 14)
        assert abs(told / ratio - 1) < 2.0**-22


def test_channels_whose_scales_are_too_far_apart_are_not_near():
    """Channels with ten bits less than the largest, whose results then differ in more than 1 %."""
    ratios = np.array([0.4, *(0.4 * 2.0**-10 * np.linspace(1.1, 1.9, 7))])
    far, _, _ = chosen(ratios, (-128, 127), 3, per_channel=True, activation=Activation.NONE)
    assert not far.is_near
    assert far.share > one_rounding.MOST_DIFFERING
    alone, _, _ = chosen(ratios[1:], (-128, 127), 3, per_channel=True, activation=Activation.NONE)
    near = differing(alone.pipeline, ratios[1:], 3, (-128, 127))
    assert np.mean(near) < one_rounding.MOST_DIFFERING


def test_a_layer_of_which_too_many_results_would_differ_stays_on_the_cpu(monkeypatch):
    """The rule names the share; stages that are near enough are taken."""
    far = np.array([0.4, *(0.4 * 2.0**-10 * np.linspace(1.1, 1.9, 7))])
    found, _, _ = chosen(far, (-128, 127), 3, per_channel=True, activation=Activation.NONE)
    conv = SimpleNamespace(node=3)
    monkeypatch.setattr(conv_stages, "requantized", lambda *_, **__: found)
    with pytest.raises(LoweringError, match="would differ") as caught:
        conv_stages.requantization(conv, None)
    assert caught.value.rule == MULTIPLIERS_KEEP_BITS.name
    monkeypatch.setattr(conv_stages, "requantized", lambda *_, **__: replace(found, is_near=True))
    assert conv_stages.requantization(conv, None) is found.pipeline


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
