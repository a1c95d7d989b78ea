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
from delegate.lower.channel_stages import channel_stages
from delegate.lower.memory.tensors import View, view_of
from delegate.lower.multipliers import quantize_multiplier
from delegate.lower.requantize import UNIT_SHIFT, requantize
from delegate.lower.stages import AccumulatorBounds, Stages


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
    acc += int(stages.bias_change[channel] if isinstance(stages, Stages) else stages.bias[channel])
    t = half_even(acc * int(stages.multipliers[channel]), stages.bs_shift)
    factor = stages.bn_multiplier
    if stages.bn_operands is not None:
        factor = int(stages.bn_operands[channel])
    u = half_even(t * factor + stages.bn_summand, stages.bn_shift)
    assert abs(t) < 2**31
    assert abs(u) < 2**31
    if stages.ew_operands is not None:
        assert 0 < int(stages.ew_operands[channel]) < 2**15
        u *= int(stages.ew_operands[channel])
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


def without_ew(reals, reach, outputs):
    """The stages where EW is taken by something else."""
    bound = np.full(len(reals), reach, np.int64)
    bounds = AccumulatorBounds(-bound, bound)
    return channel_stages(0, np.array(reals), bounds, outputs, is_ew_free=False)


@pytest.mark.parametrize("outputs", [(0, 127), (-128, 127)])
def test_results_without_ew_equal_tflite_but_for_a_few(outputs):
    """C has 15 bits of the multiplier."""
    reals = [0.4, 0.11, 0.0123, 0.0057, 0.0009]
    stages = without_ew(reals, 1 << 18, outputs)
    assert stages.ew_operands is None
    for channel, real in enumerate(reals):
        first = int(outputs[0] / real)
        accumulators = range(first, int(127 / real), max(1, int(0.02 / real)))
        wrong = sum(
            registers(stages, channel, acc) != tflite_scaled(acc, real) for acc in accumulators
        )
        assert wrong <= len(accumulators) / 250


@given(
    st.lists(st.floats(1e-4, 0.9), min_size=2, max_size=9),
    st.integers(100, 2**22),
    st.sampled_from([(-128, 127), (0, 127), (-3, 250), (-255, 0)]),
)
@settings(max_examples=60, deadline=None)
def test_channels_without_wrong_steps_equal_tflite_at_every_step(reals, reach, outputs):
    """A step: where TFLite goes from one output to the next, found here by bisection."""
    bound = np.full(len(reals), reach, np.int64)
    bounds = AccumulatorBounds(-bound, bound)
    stages = channel_stages(0, np.array(reals), bounds, outputs, is_ew_free=True)
    if stages.wrong_steps != 0:
        return
    for channel, real in enumerate(reals):
        for output in (outputs[0] + 1, -1, 0, 1, 2, 77, outputs[1]):
            if not outputs[0] < output <= outputs[1]:
                continue
            low, high = -reach - 1, reach + 1
            while high - low > 1:
                middle = (low + high) // 2
                if tflite_scaled(middle, real) >= output:
                    high = middle
                else:
                    low = middle
            if high <= reach:
                assert registers(stages, channel, high) >= output
            if low >= -reach:
                assert registers(stages, channel, low) < output


def test_nearly_all_channels_of_a_wide_layer_are_proven_equal():
    rng = np.random.default_rng(7)
    reals = list(np.exp(rng.uniform(np.log(3e-4), np.log(8e-3), 300)))
    bound = np.full(len(reals), 1 << 20, np.int64)
    bounds = AccumulatorBounds(-bound, bound)
    stages = channel_stages(0, np.array(reals), bounds, (-128, 127), is_ew_free=True)
    assert stages.wrong_steps is not None
    assert stages.wrong_steps <= 3  # of 76,500 steps


@pytest.mark.parametrize("output", [0, -128, 127])
def test_an_activation_that_leaves_one_output_has_no_steps(output):
    """As RELU with its zero point at the end of the range."""
    bound = np.array([1 << 20, 1 << 18], np.int64)
    bounds = AccumulatorBounds(-bound, bound)
    stages = channel_stages(0, np.array([0.003, 0.0005]), bounds, (output, output), is_ew_free=True)
    assert stages.wrong_steps == 0


def test_a_channel_with_one_result_for_every_input_takes_no_bits_from_the_others():
    """As converters make them: no weights, a huge bias, and a scale far below the others."""
    reals = [3.3e-7, 0.004, 0.0007]
    low = np.array([-155_000_000, -60_000, -250_000], np.int64)
    high = np.array([-155_000_000, 70_000, 250_000], np.int64)
    stages = channel_stages(
        0, np.array(reals), AccumulatorBounds(low, high), (-128, 127), is_ew_free=True
    )
    assert stages.wrong_steps == 0
    assert stages.bs_shift <= 4
    assert registers(stages, 0, int(low[0])) == tflite_scaled(int(low[0]), reals[0])
    for channel in (1, 2):
        for acc in range(int(low[channel]), int(high[channel]), 97):
            theirs = tflite_scaled(acc, reals[channel])
            assert np.clip(registers(stages, channel, acc), -128, 127) == np.clip(theirs, -128, 127)


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
