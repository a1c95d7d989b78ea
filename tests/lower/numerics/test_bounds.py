"""The prover finds for every accumulator what a bound tells."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.lower.numerics import bounds, one_rounding, prover
from delegate.lower.numerics.factors import pipeline_of
from delegate.lower.numerics.looked_up import _by_index, _by_record
from delegate.lower.numerics.pipeline import OutConvert, Pipeline
from delegate.lower.numerics.requantize import last_roundings, target_of
from delegate.model.graph import Activation

ACTIVATIONS = Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1


def drawn(rng):
    """Return a specification with multipliers, ranges and clamps of all sizes."""
    channels = int(rng.integers(1, 9))
    ratios = 2.0 ** rng.uniform(-16, 1, 1) * 2.0 ** rng.uniform(-rng.choice([0, 1, 6]), 0, channels)
    reach = 2.0 ** rng.uniform(0, 28 - max(0, np.log2(ratios.max()) + 8), channels)
    middle = np.rint(rng.uniform(-1, 1, channels) * reach).astype(np.int64)
    low, high = middle - np.rint(reach).astype(np.int64), middle + np.rint(reach).astype(np.int64)
    scale, zero_point = 2.0 ** rng.uniform(-8, 0), int(rng.integers(-128, 128))
    activation = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
    once = bool(rng.integers(2))
    return target_of(ratios, (low, high), scale, zero_point, activation, rounds_once=once)


def changed(rng, pipeline):
    """Return the stages, or such with one number changed, a little or a lot."""
    bs, out = pipeline.bs, pipeline.out
    factor = 1 + rng.choice([-1, 1]) * 2.0 ** rng.uniform(-14, 0)
    step = 2.0 ** (out.shift - np.log2(out.scale))
    return (
        pipeline,
        pipeline,
        replace(pipeline, bs=replace(bs, multiply=np.rint(bs.multiply * factor).astype(np.int64))),
        replace(pipeline, bs=replace(bs, add=bs.add + int(step * rng.uniform(-2, 2)))),
        replace(pipeline, bs=replace(bs, shift=bs.shift + 1)),
        replace(pipeline, bs=replace(bs, relu=not bs.relu)),
        replace(pipeline, bn=replace(pipeline.bn, relux=int(step * rng.integers(1, 300)))),
        replace(pipeline, bn=replace(pipeline.bn, relu=not pipeline.bn.relu)),
        replace(pipeline, out=replace(out, offset=out.offset + int(rng.integers(-1, 2)))),
        replace(pipeline, out=replace(out, scale=max(1, round(out.scale * factor)))),
    )[rng.integers(10)]


class Counts:
    """The stages that are near by the prover, those that are not, and those a bound accepts."""

    def __init__(self):
        self.near = self.refused = self.accepted = 0

    def add(self, is_near, is_accepted, *what):
        assert is_near or not is_accepted, what
        self.near += is_near
        self.refused += not is_near
        self.accepted += is_accepted

    def hold(self, refused):
        assert self.refused > refused
        assert self.accepted > self.near / 3  # else nobody needs the bound


@pytest.mark.parametrize("seed", range(4))
def test_stages_that_a_bound_accepts_are_within_one_lsb(seed):
    rng, counts = np.random.default_rng(seed), Counts()
    for _ in range(400):
        target = drawn(rng)
        for factors in one_rounding.proposals(target, for_all=False):
            given = changed(rng, pipeline_of(factors, target))
            for pipeline in last_roundings(given, has_ties_away=bool(rng.integers(2))):
                is_near = prover.prove(pipeline, target).is_within_one_lsb
                is_accepted = bounds.is_within_one_lsb(pipeline, target)
                counts.add(is_near, is_accepted, pipeline, target)
    counts.hold(refused=100)


@pytest.mark.parametrize("seed", range(4))
def test_an_index_that_a_bound_accepts_is_near(seed):
    rng, counts = np.random.default_rng(seed), Counts()
    for _ in range(600):
        target = drawn(rng)
        some = [*_by_record(target, True), *(_by_index(target) if target.q.size == 1 else ())]
        for bs, bn in some:
            pipeline = changed(rng, Pipeline(bs, bn, out=OutConvert(1, 8)))
            is_near = prover.index_is_near(pipeline, target)
            counts.add(is_near, bounds.index_is_near(pipeline, target), pipeline, target)
    counts.hold(refused=20)
