"""Tests what stands for ties away from zero on a board whose OUT_CVT rounds ties to even."""

import numpy as np
import pytest

from delegate.lower.numerics import image_sums
from delegate.lower.numerics.addition import requantize_sum
from delegate.lower.numerics.multiplication import requantize_product
from delegate.lower.numerics.pipeline import OutConvert, Pipeline
from delegate.lower.numerics.requantize import Ways, last_roundings, requantize, target_of
from delegate.lower.numerics.tflite import INT8_VALUES
from delegate.model.graph import Activation
from tests.lower.numerics import oracle
from tests.lower.numerics.oracle import half_away, half_even

_MOST = 255


def hardware(values: np.ndarray, out: OutConvert) -> list[int]:
    """OUT_CVT in Python's whole numbers."""
    assert not out.ties_away
    return [half_even(int(v) * out.scale, out.shift) for v in values]


@pytest.mark.parametrize("shift", range(1, 7))
@pytest.mark.parametrize("scale", [1, 1 << 14])
def test_ties_are_moved_and_nothing_else(shift: int, scale: int) -> None:
    """Every value whose result is within +-255."""
    whole = Pipeline(out=OutConvert(scale, shift + scale.bit_length() - 1, ties_away=True))
    values = np.arange(-(_MOST << shift), (_MOST << shift) + 1)
    first, *_ = last_roundings(whole, has_ties_away=False)
    assert hardware(values, first.out) == [half_away(int(v), shift) for v in values]


def test_the_plain_scale_is_another_choice_and_does_not_move_ties() -> None:
    whole = Pipeline(out=OutConvert(1 << 14, 16, ties_away=True))
    *_, last = last_roundings(whole, has_ties_away=False)
    assert hardware(np.array([2, 6, -2, -6]), last.out) == [0, 2, 0, -2]


def test_boards_that_round_ties_away_keep_the_pipeline() -> None:
    whole = Pipeline(out=OutConvert(1 << 14, 16, ties_away=True))
    assert list(last_roundings(whole, has_ties_away=True)) == [whole]


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
@pytest.mark.parametrize("seed", range(12))
def test_requantisations_are_within_one_step_and_equal_where_units_are_coarse(
    seed: int, activation: Activation
) -> None:
    rng = np.random.default_rng(seed)
    exponent = int(rng.integers(2, 10))
    ratio = float(rng.uniform(0.5, 1.0) * 2.0**-exponent)
    reach = int(200 / ratio)
    zero_point = -128 if activation is Activation.RELU else int(rng.integers(-30, 30))
    bounds = np.array([-reach]), np.array([reach])
    target = target_of(np.array([ratio]), bounds, 0.1, zero_point, activation)
    found = requantize(0, target, per_channel=False, ways=Ways(ties_away=False))
    assert not found.pipeline.out.ties_away
    # Every accumulator around ties of the second rounding, and others.
    near = np.rint((np.arange(-128, 129) + 0.5) / ratio).astype(np.int64)
    values = np.concatenate([near + d for d in range(-3, 4)] + [rng.integers(-reach, reach, 3000)])
    values = np.clip(values, -reach, reach)
    results = np.array([oracle.device(found.pipeline, 0, int(v)) for v in values])
    q, e = oracle.quantized(ratio)
    outputs = (zero_point if activation is Activation.RELU else -128), 127
    wanted = [oracle.tflite(int(v), q, e, zero_point, outputs) for v in values]
    off = np.abs(results - wanted)
    assert off.max() <= 1
    if exponent <= 6:
        assert off.max() == 0
        assert int(found.proof.wrong.sum()) == 0


def test_operators_of_one_and_two_values_stay_what_they_are() -> None:
    """Additions of equal scales are full of ties, averages of even numbers too."""
    scales, zero_points = (0.1, 0.1, 0.2), (3, -5, 0)
    given = (0, scales, zero_points, Activation.NONE)
    with_ties, without = (requantize_sum(*given, has_ties_away=has) for has in (True, False))
    assert not without.pipeline.out.ties_away
    assert int(with_ties.proof.wrong.sum()) == int(without.proof.wrong.sum()) == 0
    x, e = INT8_VALUES[:, np.newaxis], INT8_VALUES
    wanted = [[half_away(int(a - 3 + b + 5), 1) for b in e] for a in x[:, 0]]
    results = without.pipeline.run(x.astype(np.float64), e.astype(np.float64))
    assert np.array_equal(results, np.clip(wanted, -128, 127))
    product = requantize_product(0, 0.01, (0, 4, -3), (-128, 127), has_ties_away=False)
    assert product.proof.is_within_one_lsb
    for count in (2, 4, 9, 16, 49):
        found = image_sums.average(count, 0, (-128, 127), False)
        assert found is not None
        assert not found.out.ties_away
        mean = image_sums.mean_target(count, (0.5, 0.5), (0, 0))
        assert not image_sums.requantize_image(0, mean, has_ties_away=False).out.ties_away
