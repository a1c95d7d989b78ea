"""Factors of per-tensor multipliers: exact wherever they say so, and the count of wrong steps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.lower.factors import OUTPUT_STEPS, Factors, choose_factors
from delegate.lower.multipliers import quantize_multiplier, scale_accumulator


def half_even(value: Fraction) -> int:
    return round(value)


def half_away(value: Fraction) -> int:
    magnitude = int(abs(value) + Fraction(1, 2))
    return magnitude if value >= 0 else -magnitude


def device(accumulator: int, factors: Factors, exponent: int, bs_shift: int) -> int:
    """BS, BN and OUT_CVT in exact rational numbers."""
    bn_shift = factors.bits - max(exponent, 0) - bs_shift
    scaled = half_even(Fraction(accumulator * factors.first, 1 << bs_shift))
    unit = half_even(Fraction(scaled * factors.second, 1 << bn_shift))
    return half_away(Fraction(unit, 1 << max(-exponent, 0)))


def bs_shift_of(magnitude: int) -> int:
    return max(0, magnitude.bit_length() + 15 - 30)


@given(
    real=st.floats(2.0**-12, 0.75),
    magnitude=st.integers(2000, 1 << 22),
    seed=st.integers(0, 1 << 30),
)
def test_no_wrong_step_means_equal_for_every_accumulator(
    real: float, magnitude: int, seed: int
) -> None:
    q, exponent = quantize_multiplier(real)
    bs_shift = bs_shift_of(magnitude)
    factors = choose_factors(q, exponent, bs_shift, magnitude)
    assert factors is not None
    if factors.wrong_steps:
        return
    limit = min(magnitude - 4, int(OUTPUT_STEPS / real) - 2)
    drawn = np.random.default_rng(seed).integers(-limit, limit, 20, endpoint=True)
    ties = [round((k + 0.5) / real) + d for k in (0, 7, 100, -1, -90) for d in (-1, 0, 1)]
    for accumulator in [*map(int, drawn), *(a for a in ties if abs(a) <= limit)]:
        expected = scale_accumulator(accumulator, real)
        assert device(accumulator, factors, exponent, bs_shift) == expected, accumulator


def test_an_accumulator_next_to_a_tie_decides() -> None:
    """2343 * q / 2^31 = 2271.500017: BS must not lose the last bits (a layer of MobileNetV1)."""
    real = 0.015148180864416702
    q, exponent = quantize_multiplier(real)
    magnitude = 1 << 16
    factors = choose_factors(q, exponent, bs_shift_of(magnitude), magnitude)
    assert factors is not None
    assert factors.wrong_steps == 0
    assert device(2343, factors, exponent, bs_shift_of(magnitude)) == 36
    assert device(2342, factors, exponent, bs_shift_of(magnitude)) == 35


@pytest.mark.parametrize("real", [1.0, 2.0, 64.0])
def test_whole_powers_of_two_lose_nothing(real: float) -> None:
    q, exponent = quantize_multiplier(real)
    factors = choose_factors(q, exponent, bs_shift_of(1 << 20), 1 << 20)
    assert factors is not None
    assert (factors.wrong_steps, factors.drops_bits, factors.error) == (0, False, 0.0)


def test_a_half_ties_at_every_second_accumulator() -> None:
    """BN rounds ties to even, TFLite's first rounding up: half of the ties differ, by one step."""
    q, exponent = quantize_multiplier(0.5)
    factors = choose_factors(q, exponent, 0, 4096)
    assert factors is not None
    assert factors.wrong_steps == OUTPUT_STEPS


def test_multipliers_beyond_the_shifts_have_no_factors() -> None:
    q, exponent = quantize_multiplier(2.0**29)
    assert choose_factors(q, exponent, bs_shift_of(1 << 20), 1 << 20) is None


def test_most_multipliers_are_exact() -> None:
    """Drawn as real layers have them; each wrong step would be one accumulator value of many."""
    generator = np.random.default_rng(11)
    wrong = []
    for real in 2.0 ** generator.uniform(-11, -1, 60):
        q, exponent = quantize_multiplier(float(real))
        factors = choose_factors(q, exponent, bs_shift_of(1 << 18), 1 << 18)
        assert factors is not None
        wrong.append(factors.wrong_steps)
    assert max(wrong) <= 2
    assert sum(count == 0 for count in wrong) >= 55
