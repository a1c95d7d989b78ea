"""Register stages against TFLite's integer arithmetic, written here again in plain integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.errors import LoweringError
from delegate.graph import Activation
from delegate.lower.add_scales import choose_add_scales
from delegate.lower.multipliers import quantize_multiplier
from delegate.lower.requantize import UNIT_SHIFT, requantize
from delegate.lower.stages import AccumulatorBounds
from delegate.lower.tensors import View, view_of


def tflite_scaled(acc: int, real: float) -> int:
    """MultiplyByQuantizedMultiplier with its two roundings, on Python integers."""
    mantissa, exponent = math.frexp(real)
    q = math.floor(mantissa * 2**31 + 0.5)
    if q == 2**31:
        q, exponent = q // 2, exponent + 1
    x = acc * 2 ** max(exponent, 0)
    nudged = x * q + (2**30 if x * q >= 0 else 1 - 2**30)
    high = (
        int(nudged / 2**31)
        if abs(nudged) < 2**53
        else (abs(nudged) >> 31) * (1 if nudged > 0 else -1)
    )
    right = max(-exponent, 0)
    if right == 0:
        return high
    magnitude = (abs(high) + 2 ** (right - 1)) >> right
    return magnitude if high >= 0 else -magnitude


def half_even(value: int, shift: int) -> int:
    quotient, rest = divmod(value, 1 << shift)
    half = (1 << shift) >> 1
    if shift and (rest > half or (rest == half and quotient % 2)):
        quotient += 1
    return quotient


def registers(stages, channel: int, acc: int) -> int:
    t = half_even(acc * int(stages.multipliers[channel]), stages.bs_shift)
    factor = stages.bn_multiplier
    if stages.bn_operands is not None:
        factor = int(stages.bn_operands[channel])
    u = half_even((t + stages.bn_summand) * factor, stages.bn_shift)
    assert abs(t) < 2**31
    assert abs(u) < 2**31
    shift = stages.unit_bits
    magnitude = (abs(u) * 2**UNIT_SHIFT + ((1 << (shift + UNIT_SHIFT)) >> 1)) >> (
        shift + UNIT_SHIFT
    )
    return magnitude if u >= 0 else -magnitude


def stages_for(multipliers, reach, per_channel, activation=Activation.NONE):
    values = np.array(multipliers, np.float64)
    bound = np.full(len(values), reach, np.int64)
    return requantize(
        0,
        values,
        np.zeros(len(values), np.int64),
        AccumulatorBounds(-bound, bound),
        per_channel,
        activation,
        1.0,
        0,
    )


@given(
    st.floats(1e-11, 3.0),
    st.integers(8, 2**27),
    st.lists(st.floats(-1, 1), min_size=1, max_size=20),
)
@settings(max_examples=400, deadline=None)
def test_per_tensor_stages_equal_tflite(real, reach, positions):
    try:
        stages = stages_for([real], reach, per_channel=False)
    except LoweringError as error:
        assert error.rule in ("multiplier_in_range", "error_below_half_lsb")
        assert reach * real > 2**29 or real > 1
        return
    assert stages.error_lsb < 0.5
    for position in positions:
        acc = int(position * min(reach, 300 / real))
        assert abs(registers(stages, 0, acc) - tflite_scaled(acc, real)) <= 1


@given(
    st.lists(st.floats(1e-7, 0.9), min_size=2, max_size=9),
    st.integers(8, 2**24),
    st.lists(st.floats(-1, 1), min_size=1, max_size=20),
)
@settings(max_examples=400, deadline=None)
def test_per_channel_stages_stay_within_one_lsb(reals, reach, positions):
    try:
        stages = stages_for(reals, reach, per_channel=True)
    except LoweringError as error:
        assert error.rule == "error_below_half_lsb"
        assert max(reals) / min(reals) > 2**8
        return
    for channel, real in enumerate(reals):
        for position in positions:
            acc = int(position * min(reach, 300 / real))
            assert abs(registers(stages, channel, acc) - tflite_scaled(acc, real)) <= 1


@given(
    st.lists(st.floats(1e-7, 0.45), min_size=2, max_size=9),
    st.integers(8, 2**24),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
@settings(max_examples=400, deadline=None)
def test_positive_results_stay_within_one_lsb(reals, reach, positions):
    try:
        stages = stages_for(reals, reach, per_channel=True, activation=Activation.RELU)
    except LoweringError as error:
        assert error.rule == "error_below_half_lsb"
        assert max(reals) / min(reals) > 2**8
        return
    for channel, real in enumerate(reals):
        for position in positions:
            acc = int(position * min(reach, 300 / real))
            assert abs(registers(stages, channel, acc) - tflite_scaled(acc, real)) <= 1


def test_positive_results_equal_tflite_but_for_a_few():
    """The rounding TFLite makes first is a summand there, and C * D has more than 20 bits."""
    reals = [0.4, 0.11, 0.0123, 0.0057, 0.0009]
    stages = stages_for(reals, 1 << 18, per_channel=True, activation=Activation.RELU)
    assert stages.bn_summand > 0
    for channel, real in enumerate(reals):
        accumulators = range(0, int(255 / real), max(1, int(0.02 / real)))
        wrong = sum(
            registers(stages, channel, acc) != tflite_scaled(acc, real) for acc in accumulators
        )
        assert wrong <= len(accumulators) / 1000


@pytest.mark.parametrize("per_channel", [False, True])
def test_both_roundings_of_tflite_are_reproduced(per_channel):
    """With a multiplier of 0.4 one exact rounding would differ on a quarter of all values."""
    reals = [0.4, 0.13] if per_channel else [0.4, 0.4]
    stages = stages_for(reals, 1000, per_channel)
    for channel, real in enumerate(reals):
        exact = sum(round(acc * real) != tflite_scaled(acc, real) for acc in range(-300, 300))
        ours = sum(
            registers(stages, channel, acc) != tflite_scaled(acc, real) for acc in range(-300, 300)
        )
        assert ours <= 1
        assert exact > 20


@given(st.floats(1e-12, 1e6))
def test_quantize_multiplier_is_accurate_to_31_bits(value):
    q, exponent = quantize_multiplier(value)
    if q == 0:
        assert value < 2.0**-31
        return
    assert 2**30 <= q < 2**31
    assert math.isclose(q * 2.0 ** (exponent - 31), value, rel_tol=2.0**-31)


def test_an_accumulator_beyond_int32_is_refused_unless_it_always_saturates():
    bound = np.array([2**20], np.int64)
    bias = np.array([2**31 - 10], np.int64)
    arguments = (False, Activation.NONE, 1.0, 0)
    saturated = requantize(
        0, np.array([0.5]), bias, AccumulatorBounds(bias - bound, bias + bound), *arguments
    )
    assert int(saturated.bias[0]) * 0.5 > 512
    with pytest.raises(LoweringError, match="int32"):
        requantize(
            0, np.array([1e-9]), bias, AccumulatorBounds(bias - bound, bias + bound), *arguments
        )


@given(st.floats(1e-4, 50.0), st.floats(1e-4, 50.0))
@settings(max_examples=100, deadline=None)
def test_addition_scales_are_within_their_bound(first, second):
    try:
        scales = choose_add_scales(0, first, second)
    except LoweringError as error:
        assert error.rule == "error_below_half_lsb"
        return
    unit = scales.scale / 2.0**scales.shift
    for a, b in [(255, 255), (-255, 255), (255, -255), (1, -1), (0, 255)]:
        real = a * first + b * second
        ours = (a * scales.first + b * scales.second) * unit
        assert abs(real - ours) <= scales.error_lsb * 1.0000001 + 1e-9


def test_views_of_lower_ranks_put_the_last_dimension_into_channels():
    assert view_of((2, 3, 5, 7)) == View(2, 3, 5, 7)
    assert view_of((5, 7)) == View(1, 1, 5, 7)
    assert view_of(()) == View(1, 1, 1, 1)
