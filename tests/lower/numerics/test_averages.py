"""Averages and means: their stages against the definition of the reference kernels."""

import itertools
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from delegate.lower.numerics.image_sums import (
    average,
    average_target,
    mean_target,
    requantize_image,
)
from delegate.lower.numerics.prover import prove
from tests.loops import for_each
from tests.lower.numerics.oracle import device

ALL = (-128, 127)


def divided(total: int, count: int) -> int:
    """To the nearest, halves away from zero."""
    magnitude = floor(Fraction(abs(total), count) + Fraction(1, 2))
    return magnitude if total >= 0 else -magnitude


COUNTS = (1, 2, 3, 4, 6, 9, 16, 25, 49, 64, 81, 100, 169, 256, 400, 961)
CLAMPS = ((-128, 50), (3, 127), (3, 90), (-40, 60))
CASES = [(count, ALL) for count in COUNTS] + list(itertools.product((3, 9, 49), CLAMPS))


@for_each("offset", [0, 128])
@for_each("count, outputs", CASES)
def test_averages_are_those_of_the_definition(
    count: int, outputs: tuple[int, int], offset: int
) -> None:
    pipeline = average(count, offset, outputs)
    assert pipeline is not None
    rng = np.random.default_rng(count)
    ends = (-128 * count, 127 * count, -1, 0, 1, -offset * count, count // 2, -count // 2)
    for total in (*ends, *rng.integers(-128 * count, 127 * count + 1, 300).tolist()):
        raw = total + offset * count
        wanted = divided(raw, count) - offset
        assert device(pipeline, 0, raw) == min(max(wanted, outputs[0]), outputs[1])


def test_a_setting_that_is_wrong_for_one_sum_is_no_average() -> None:
    target = average_target(49, 0, ALL)
    pipeline = average(49, 0, ALL)
    assert pipeline is not None
    assert prove(pipeline, target).is_equal
    for out in (
        replace(pipeline.out, scale=pipeline.out.scale - 8),
        replace(pipeline.out, scale=pipeline.out.scale + 8),
        replace(pipeline.out, shift=pipeline.out.shift - 1),
        replace(pipeline.out, offset=1),
    ):
        assert not prove(replace(pipeline, out=out), target).is_equal
    assert not prove(pipeline, average_target(48, 0, ALL)).is_equal


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 49, 98, 256])
def test_the_specification_of_an_average_is_the_definition(count: int) -> None:
    """Every sum: its result, and where each result begins."""
    target = average_target(count, 0, ALL)
    sums = np.arange(int(target.low[0]), int(target.high[0]) + 1)
    wanted = [divided(total, count) for total in sums.tolist()]
    np.testing.assert_array_equal(target.results(sums), wanted)
    begins = [int(sums[np.argmax(np.array(wanted) >= k)]) for k in range(-127, 128)]
    np.testing.assert_array_equal(target.firsts[0], begins)


@for_each("ratio", [1.0, 0.5, 2.0, 0.37, 1.7, 4.0])
@for_each("count", [1, 2, 4, 9, 16, 49, 64, 77, 256, 400, 961])
def test_means_are_proven_equal(count: int, ratio: float) -> None:
    scale = float(np.float32(0.037))
    for zero_points in ((0, 0), (-128, -128), (17, -9)):
        target = mean_target(count, (scale * ratio, scale), zero_points)
        proof = prove(requantize_image(0, target), target)
        assert proof.is_within_one_lsb
        assert proof.wrong[0] == 0
