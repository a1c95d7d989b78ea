"""What is accepted is right, what real layers need is exact, and the rest is refused by a rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.errors import LoweringError
from delegate.lower.numerics.bounds import AccumulatorBounds, accumulator_bounds
from delegate.lower.numerics.requantize import requantize
from delegate.lower.numerics.tflite import quantize_multiplier
from delegate.model.graph import Activation
from tests.lower.numerics import oracle


def requantized(
    reals, low, high, *, per_channel=True, activation=Activation.NONE, scale=0.05, zero_point=0
):
    bounds = AccumulatorBounds(
        *(np.array(np.broadcast_to(v, (len(reals),)), np.int64) for v in (low, high))
    )
    return requantize(
        0,
        np.array(reals, np.float64),
        bounds,
        per_channel=per_channel,
        activation=activation,
        output_scale=scale,
        output_zero_point=zero_point,
    )


@given(
    st.lists(st.floats(1e-10, 8.0), min_size=1, max_size=6),
    st.booleans(),
    st.integers(-(2**27), 2**27),
    st.integers(0, 2**24),
    st.sampled_from([Activation.NONE, Activation.RELU, Activation.RELU_N1_TO_1]),
    st.sampled_from([-128, -3, 127]),
    st.lists(st.floats(0, 1), min_size=1, max_size=12),
)
@settings(max_examples=300, deadline=None)
def test_accepted_stages_are_within_one_lsb(
    reals, per_channel, low, width, activation, zero_point, positions
):
    reals = reals if per_channel else [reals[0]] * len(reals)
    try:
        found = requantized(
            reals,
            low,
            low + width,
            per_channel=per_channel,
            activation=activation,
            zero_point=zero_point,
        )
    except LoweringError as error:
        assert error.rule in ("within_one_lsb", "accumulator_fits_int32")
        return
    outputs = {
        Activation.NONE: (-128, 127),
        Activation.RELU: (zero_point, 127),
        Activation.RELU_N1_TO_1: (max(-128, zero_point - 20), min(127, zero_point + 20)),
    }[activation]
    for channel, real in enumerate(reals):
        for position in positions:
            acc = low + int(position * width)
            theirs = oracle.tflite(acc, *oracle.quantized(real), zero_point, outputs)
            assert abs(oracle.device(found.pipeline, channel, acc) - theirs) <= 1


@pytest.mark.parametrize("per_channel", [False, True])
def test_most_layers_equal_tflite_for_every_accumulator(per_channel):
    """Multipliers as real layers have them; each wrong end would be one accumulator of many."""
    rng = np.random.default_rng(7)
    reals = np.exp(rng.uniform(np.log(3e-4), np.log(8e-3), 300))
    reach = 1 << 20
    if per_channel:
        wrong = requantized(reals, -reach, reach).proof.wrong
    else:
        wrong = np.concatenate(
            [requantized([r], -reach, reach, per_channel=False).proof.wrong for r in reals[:60]]
        )
    assert np.count_nonzero(wrong) <= 3


@pytest.mark.parametrize("per_channel", [False, True])
def test_both_roundings_of_tflite_are_reproduced(per_channel):
    """With a multiplier of 0.4 one exact rounding would differ on a quarter of all values."""
    reals = [0.4, 0.13] if per_channel else [0.4, 0.4]
    found = requantized(reals, -1000, 1000, per_channel=per_channel)
    assert int(found.proof.wrong.sum()) <= 1
    for channel, real in enumerate(reals):
        q, exponent = oracle.quantized(real)
        theirs = [oracle.tflite(a, q, exponent, 0, (-128, 127)) for a in range(-300, 300)]
        ours = [oracle.device(found.pipeline, channel, a) for a in range(-300, 300)]
        assert sum(a != b for a, b in zip(ours, theirs, strict=True)) <= 1
        exact = [min(max(round(a * real), -128), 127) for a in range(-300, 300)]
        assert sum(a != b for a, b in zip(exact, theirs, strict=True)) > 20


def test_a_channel_with_one_result_for_every_input_takes_no_bits_from_the_others():
    """As converters make them: no weights, a huge bias, and a scale far below the others."""
    low = [-155_000_000, -60_000, -250_000]
    high = [-155_000_000, 70_000, 250_000]
    found = requantized([3.3e-7, 0.004, 0.0007], low, high)
    assert not found.proof.wrong.any()
    assert found.pipeline.bs.shift <= 4


@pytest.mark.parametrize("zero_point", [-128, 127])
def test_an_activation_that_leaves_one_output_has_nothing_to_get_wrong(zero_point):
    found = requantized(
        [0.003, 0.0005], -(1 << 18), 0, activation=Activation.RELU, zero_point=zero_point
    )
    assert not found.proof.wrong.any()


@pytest.mark.parametrize(
    ("real", "low", "high"),
    [
        (0.5, (1 << 31) - 10, (1 << 31) + 10),  # the accumulator itself
        (4.0, 0, 1 << 29),  # shifted left
        (0.999, (1 << 31) - 200, (1 << 31) - 100),  # with a zero point
        (1e-9, -(1 << 31) - 1, 0),
        (0.01, -(1 << 30) - 9, (1 << 30) + 9),  # the sum without bias
    ],
)
@pytest.mark.parametrize("per_channel", [False, True])
def test_what_could_wrap_in_int32_is_refused(real, low, high, per_channel):
    with pytest.raises(LoweringError) as caught:
        requantized([real], low, high, per_channel=per_channel)
    assert caught.value.rule == "accumulator_fits_int32"


def test_channels_too_far_apart_are_refused_not_guessed():
    """Two that vary over all outputs, the coarse one with a clamp that takes EW."""
    reach = [30, 1 << 30]
    with pytest.raises(LoweringError) as caught:
        requantized(
            [5.0, 1.3e-7],
            [-r for r in reach],
            [r - 1 for r in reach],
            activation=Activation.RELU_N1_TO_1,
            zero_point=3,
        )
    assert caught.value.rule == "within_one_lsb"


@given(st.floats(1e-12, 1e6))
def test_quantize_multiplier_is_accurate_to_31_bits(value):
    q, exponent = quantize_multiplier(value)
    assert (q, exponent) == oracle.quantized(value)
    if q == 0:
        assert value < 2.0**-31
        return
    assert 2**30 <= q < 2**31
    assert math.isclose(q * 2.0 ** (exponent - 31), value, rel_tol=2.0**-31)


@given(
    st.lists(st.integers(-255, 255), min_size=1, max_size=6),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-128, 127),
)
@settings(max_examples=100, deadline=None)
def test_bounds_are_reached(weights, bias, zero_point):
    found = accumulator_bounds(np.array([weights]), np.array([bias]), zero_point)
    ends = [-128 - zero_point, 127 - zero_point]
    assert int(found.low[0]) == bias + sum(min(w * e for e in ends) for w in weights)
    assert int(found.high[0]) == bias + sum(max(w * e for e in ends) for w in weights)
