"""Joined stages against TensorFlow Lite's steps and sums, written down anew."""

from __future__ import annotations

import math

import numpy as np
import pytest

from delegate.lower.numerics.fused import requantize_fused
from delegate.lower.numerics.fused_prover import Added, LookedUp
from delegate.lower.numerics.pair_prover import SumTarget
from delegate.lower.numerics.pipeline import Pipeline
from delegate.lower.numerics.prover import Target
from delegate.lower.numerics.tflite import quantize_multipliers
from tests.lower.numerics import oracle

CASES = 40


def convolution(rng: np.random.Generator, channels: int) -> Target:
    """Fine accumulators: one step of the result is some hundreds to thousands of them."""
    q, exponent = quantize_multipliers(2.0 ** rng.uniform(-13, -9, channels))
    far = np.full(channels, 1 << 22, np.int64)
    return Target(q, exponent, -far, far, int(rng.integers(-100, 100)), (-128, 127))


def total(rng: np.random.Generator, zero_point: int) -> SumTarget:
    scales = tuple(float(s) for s in rng.uniform(0.02, 0.06, 2))
    second, result = (int(z) for z in rng.integers(-60, 60, 2))
    return SumTarget((*scales, 0.08), (zero_point, second, result), (-128, 127))


def rounded(pipeline: Pipeline, channel: int, acc: int) -> int:
    """BS alone, from the accumulator: half to even, and clamps."""
    bs = pipeline.bs
    add, factor = (int(v if np.isscalar(v) else v[channel]) for v in (bs.add, bs.multiply))
    whole, rest = divmod((acc + add) * factor, 1 << bs.shift)
    whole += 2 * rest > 1 << bs.shift or (2 * rest == 1 << bs.shift and whole % 2)
    return min(max(whole, 0), bs.relux)


@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("seed", range(CASES))
def test_steps_near_the_zero_point_are_tensorflow_lites(seed: int, per_channel: bool) -> None:
    rng = np.random.default_rng([17, seed])
    conv = convolution(rng, 5 if per_channel else 1)
    following = Added(total(rng, conv.zero_point))
    found = requantize_fused(conv, following, per_channel=per_channel, clamps_in_bs=True)
    assert found is not None
    pipeline = found.pipeline
    factors = np.broadcast_to(pipeline.bs.multiply, len(conv.q))
    for channel in range(len(conv.q)):
        q, exponent = int(conv.q[channel]), int(conv.exponent[channel])
        per_lsb = 2.0 ** (31 - exponent) / q
        for distance in (-5, -2, -1, 1, 2, 5):
            # An accumulator where N rounds, two of nudges, and what C is off: one or two steps.
            away = 4 + 9 * per_lsb / int(factors[channel])
            place = (distance - 0.5 * math.copysign(1, distance)) * per_lsb
            for side in (-1, 1):
                acc = round(place + side * away)
                wanted = oracle.tflite(acc, q, exponent, conv.zero_point, conv.outputs)
                assert rounded(pipeline, channel, acc) == wanted + 128, (distance, side)


@pytest.mark.parametrize("seed", range(CASES))
def test_a_sum_behind_a_convolution_is_the_sum_alone(seed: int) -> None:
    """Where BS gives TensorFlow Lite's result, the sum is TensorFlow Lite's for every pair but what
    the sum alone has wrong.
    """
    rng = np.random.default_rng([18, seed])
    conv = convolution(rng, 1)
    following = Added(total(rng, conv.zero_point))
    found = requantize_fused(conv, following, per_channel=False, clamps_in_bs=True)
    assert found is not None
    bn = found.pipeline.bn
    k = np.arange(256, dtype=np.float64)[:, np.newaxis]
    before = k * bn.multiply + bn.add
    results = found.pipeline.finish(before, np.arange(-128.0, 128.0))
    assert np.count_nonzero(results != following.target.wanted) <= 8


def test_tables_hold_no_more_than_what_lies_between_equal_ends() -> None:
    rng = np.random.default_rng(19)
    conv = convolution(rng, 3)
    results = np.clip(np.arange(-128, 128), -30, 50) // 2
    found = requantize_fused(conv, LookedUp(results), per_channel=True, clamps_in_bs=True)
    assert found is not None
    assert found.pipeline.table is not None
    held = found.pipeline.table.results
    # One of each end's equal results, and all between.
    assert [*held[:2], *held[-2:]] == [-15, -14, 24, 25]
    for acc in rng.integers(conv.low[0], conv.high[0], 4096):
        for channel in range(3):
            q, exponent = int(conv.q[channel]), int(conv.exponent[channel])
            inner = oracle.tflite(int(acc), q, exponent, conv.zero_point, conv.outputs)
            ours = found.pipeline.of(slice(channel, channel + 1))
            (last,) = ours.run(np.array([[float(acc)]])).ravel()
            assert abs(last - results[inner + 128]) <= 1


def test_a_constant_function_joins() -> None:
    conv = convolution(np.random.default_rng(20), 2)
    found = requantize_fused(
        conv, LookedUp(np.full(256, 7, np.int64)), per_channel=True, clamps_in_bs=True
    )
    assert found is not None
    assert (found.proof.worst, found.share) == (0, 0.0)
