"""Weights of float32 as fp16, against all choices where they are few, and against properties."""

from itertools import product

import numpy as np
import pytest

from delegate.lower.half.rounding import rounded_weights

COMMON = 16.0
"""The weight of the square of the sum of errors against the sum of their squares."""


def neighbours(exact: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest fp16 that is no larger and the smallest that is no smaller."""
    nearest = exact.astype(np.float16)
    with np.errstate(over="ignore"):  # beside 65504
        below, above = (np.nextafter(nearest, np.float16(end)) for end in (-np.inf, np.inf))
    below, above = (
        np.where(nearest > exact, below, nearest),
        np.where(nearest < exact, above, nearest),
    )
    return below, above


def weights_of(seed: int, shape: tuple[int, ...], spread: float = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * np.exp2(rng.uniform(-spread, 0, shape))).astype(np.float32)


def worth(errors: np.ndarray) -> float:
    return float(COMMON * errors.sum() ** 2 + (errors**2).sum())


@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 3, 7), (1, 9, 4), (1, 1, 6)])
def test_few_taps_get_the_best_of_all_choices(shape: tuple[int, ...]) -> None:
    weights = weights_of(1, shape)
    found = rounded_weights(weights, is_depthwise=True)
    for channel in range(shape[2]):
        exact = weights[..., channel].ravel().astype(np.float64)
        choices = zip(*neighbours(exact), strict=True)
        best = min(worth(np.array(choice, np.float64) - exact) for choice in product(*choices))
        assert worth(found[..., channel].ravel() - exact) <= best * (1 + 1e-9)


@pytest.mark.parametrize("shape", [(7, 3, 3, 5), (5, 1, 1, 640), (3, 2, 5, 33), (300, 1, 1, 61)])
def test_errors_of_large_kernels_cancel(shape: tuple[int, ...]) -> None:
    weights = weights_of(2, shape)
    exact = weights.astype(np.float64).reshape(len(weights), -1)
    ours, plain = (
        rounded.reshape(exact.shape) - exact
        for rounded in (rounded_weights(weights), weights.astype(np.float16))
    )
    step = np.spacing(np.abs(exact).max(axis=1).astype(np.float16))
    assert (np.abs(ours.sum(axis=1)) <= step / 2).all()
    assert (ours**2).sum() <= 1.5 * (plain**2).sum()
    assert np.mean([worth(e) for e in ours]) <= 0.15 * np.mean([worth(e) for e in plain])


def test_every_weight_is_one_of_its_neighbours() -> None:
    ends = [65504, -65504, 65490, 2.0**-24, -(2.0**-25), 1e-9, 0.0, -0.0, 2049, 1, 0.1, 6e-5]
    rng = np.random.default_rng(3)
    for shape in ((11, 3, 3, 13), (40, 1, 1, 300), (1, 1, 1, 1)):
        weights = rng.choice(np.array(ends, np.float32), shape) * rng.choice([1, 0.999], shape)
        weights = weights.astype(np.float32)
        for is_depthwise in (False, True):
            some = weights[0] if is_depthwise else weights
            found = rounded_weights(some, is_depthwise=is_depthwise)
            below, above = neighbours(some)
            assert ((found == below) | (found == above)).all()
            assert found.shape == some.shape


def test_what_fp16_holds_stays() -> None:
    weights = weights_of(4, (5, 3, 3, 7)).astype(np.float16)
    assert (rounded_weights(weights) == weights).all()
    assert (rounded_weights(weights.astype(np.float32)) == weights).all()


@pytest.mark.parametrize("spread", [(2, 2), (1, 3), (4, 1), (5, 5)])
def test_taps_that_meet_pixels_together_cancel(spread: tuple[int, int]) -> None:
    weights = weights_of(5, (4, 4, 3, 24))
    found = rounded_weights(weights, spread=spread)
    error = found.astype(np.float64) - weights
    for rows, columns in product(range(spread[0]), range(spread[1])):
        place = (slice(None), slice(rows, None, spread[0]), slice(columns, None, spread[1]))
        if error[place].size:
            step = float(np.spacing(np.float16(np.abs(weights[place]).max())))
            assert np.abs(error[place].sum(axis=(1, 2, 3))).max() <= step / 2


def test_blocks_do_not_meet() -> None:
    weights = weights_of(6, (600, 1, 1, 9))
    found = rounded_weights(weights)
    for part in (slice(0, 1), slice(255, 258), slice(599, 600)):
        assert (found[part] == rounded_weights(weights[part])).all()


def test_nothing_is_rounded_beyond_the_largest() -> None:
    """The largest number has none a step further; signs differ, so that both ends cancel."""
    ends = np.array([65511.0, -65513.0, 65505.0, -65519.0], np.float32).reshape(2, 2, 1)
    found = rounded_weights(ends, is_depthwise=True)
    assert np.array_equal(found, np.sign(ends) * np.float16(65504))
