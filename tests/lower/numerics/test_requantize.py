"""Tests that accepted pipelines are right, those of real layers exact, others refused by a rule."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.errors import LoweringError
from delegate.lower.numerics import two_roundings
from delegate.lower.numerics.factors import pipeline_of
from delegate.lower.numerics.prover import prove
from delegate.lower.numerics.requantize import requantize, target_of
from delegate.lower.numerics.tflite import (
    Target,
    accumulator_bounds,
    quantize_multiplier,
    quantize_multipliers,
    term_sums,
)
from delegate.model.graph import Activation
from tests.loops import for_each
from tests.lower.numerics import oracle

# Least and largest result by zero point, for an output scale of 0.05.
RANGES = {
    Activation.NONE: lambda zero_point: (-128, 127),
    Activation.RELU: lambda zero_point: (zero_point, 127),
    Activation.RELU6: lambda zero_point: (zero_point, min(127, zero_point + 120)),
    Activation.RELU_N1_TO_1: lambda zero_point: (
        max(-128, zero_point - 20),
        min(127, zero_point + 20),
    ),
}


def requantized(
    reals,
    low,
    high,
    *,
    per_channel=True,
    rounds_once=False,
    activation=Activation.NONE,
    scale=0.05,
    zero_point=0,
):
    low, high = (np.array(np.broadcast_to(v, (len(reals),)), np.int64) for v in (low, high))
    given = np.array(reals, np.float64), (low, high), scale, zero_point, activation
    target = target_of(*given, rounds_once=rounds_once)
    return requantize(0, target, per_channel=per_channel)


def leaves_int32(accumulator, real):
    """Return whether TensorFlow Lite's left shift, or its result with a zero point, wraps."""
    _, exponent = oracle.quantized(real)
    return exponent >= 0 and (abs(accumulator) << exponent) + 256 >= oracle.INT32


def check_result(found, channel, accumulator, theirs):
    """Check that stages give the kernel's result, or a step beside it if not proven equal."""
    off = abs(oracle.device(found.pipeline, channel, accumulator) - theirs)
    assert off <= int(found.proof.wrong.any())


ACTIVATIONS = st.sampled_from(list(RANGES))
ZERO_POINTS = st.sampled_from([-128, -3, 127])
POSITIONS = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_accepted_stages_are_within_one_lsb():
    """Many are accepted, or this would show nothing."""
    accepted = 0

    @given(
        st.lists(st.floats(1e-10, 8.0), min_size=1, max_size=6),
        st.booleans(),
        st.integers(-(2**27), 2**27),
        st.integers(0, 2**24),
        *(ACTIVATIONS, ZERO_POINTS, POSITIONS),
    )
    @settings(max_examples=300, deadline=None)
    def check(reals, per_channel, low, width, activation, zero_point, positions):
        nonlocal accepted
        reals = reals if per_channel else [reals[0]] * len(reals)
        how = {"per_channel": per_channel, "activation": activation, "zero_point": zero_point}
        try:
            found = requantized(reals, low, low + width, **how)
        except LoweringError as error:
            assert error.rule in ("within_one_lsb", "accumulator_fits_int32")
            return
        accepted += 1
        outputs = RANGES[activation](zero_point)
        for channel, real in enumerate(reals):
            for position in positions:
                acc = low + int(position * width)
                theirs = oracle.tflite(acc, *oracle.quantized(real), zero_point, outputs)
                check_result(found, channel, acc, theirs)

    check()
    assert accepted > 150, "of 300"


@pytest.mark.parametrize(
    ("rounds_once", "most_real", "reach", "channels", "accumulators"),
    [(False, 8e-3, 1 << 20, 2, 2), (True, 0.5, 1 << 12, 3, 10)],
)
@pytest.mark.parametrize("per_channel", [False, True])
def test_most_layers_equal_tflite_for_every_accumulator(
    rounds_once, most_real, reach, channels, accumulators, per_channel
):
    """Multipliers as real layers have them; each wrong end would be one accumulator of many. Of a
    kernel that rounds once there are some that rounding twice would get wrong everywhere.
    """
    rng = np.random.default_rng(7)
    reals = np.exp(rng.uniform(np.log(3e-4), np.log(most_real), 300))
    how = {"per_channel": per_channel, "rounds_once": rounds_once}
    layers = [reals] if per_channel else [[real] for real in reals[:60]]
    found = [requantized(layer, -reach, reach, **how).proof.wrong for layer in layers]
    wrong = np.concatenate(found)
    assert np.count_nonzero(wrong) <= (channels if per_channel else 0)  # of 300
    assert wrong.sum() <= (accumulators if per_channel else 0)


def test_outputs_that_begin_next_to_a_tie_begin_rightly_with_other_shifts():
    """The usual shifts leave nearly one such output per layer, the others hardly any."""
    rng = np.random.default_rng(7)
    usual, chosen = 0, 0
    for _ in range(40):
        q, exponent = quantize_multipliers(10.0 ** rng.uniform(-3.5, -2.5, 64))
        reach = rng.integers(100_000, 3_000_000, 64)
        target = Target(q, exponent, -reach, reach, -7, (-128, 127))
        before, after = (
            prove(pipeline_of(propose(target), target), target)
            for propose in (two_roundings.propose_with_usual_shifts, two_roundings.propose)
        )
        assert after.is_within_one_lsb
        assert after.wrong.sum() <= before.wrong.sum()
        usual, chosen = usual + before.wrong.sum(), chosen + after.wrong.sum()
    assert usual >= 20
    assert chosen <= 3


@pytest.mark.parametrize("per_channel", [False, True])
def test_both_roundings_of_tflite_are_reproduced(per_channel):
    """With a multiplier of 0.4 one exact rounding would differ on a quarter of all values."""
    reals = [0.4, 0.13] if per_channel else [0.4, 0.4]
    found = requantized(reals, -1000, 1000, per_channel=per_channel)
    assert not found.proof.wrong.any()
    for channel, real in enumerate(reals):
        q, exponent = oracle.quantized(real)
        theirs = [oracle.tflite(a, q, exponent, 0, (-128, 127)) for a in range(-300, 300)]
        ours = [oracle.device(found.pipeline, channel, a) for a in range(-300, 300)]
        assert ours == theirs
        exact = [min(max(round(a * real), -128), 127) for a in range(-300, 300)]
        assert sum(a != b for a, b in zip(exact, theirs, strict=True)) > 20


def test_a_kernel_that_rounds_once_is_reproduced():
    """Most are accepted, or this would show nothing."""
    accepted = 0

    @given(
        st.lists(st.floats(-30, 6).map(lambda bits: 2.0**bits), min_size=1, max_size=5),
        st.booleans(),
        st.integers(-300, 300),
        st.integers(0, 2**20),
        *(ACTIVATIONS, ZERO_POINTS, POSITIONS),
    )
    @settings(max_examples=300, deadline=None)
    def check(ratios, per_channel, begin, width, activation, zero_point, positions):
        nonlocal accepted
        ratios = ratios if per_channel else [ratios[0]] * len(ratios)
        low = [min(max(round(begin / ratio), -(2**30)), 2**30) for ratio in ratios]
        ends = low, [start + width for start in low]
        how = {"per_channel": per_channel, "activation": activation, "zero_point": zero_point}
        try:
            found = requantized(ratios, *ends, rounds_once=True, **how)
        except LoweringError as error:
            if error.rule == "accumulator_fits_int32":
                assert any(
                    leaves_int32(*one) for end in ends for one in zip(end, ratios, strict=True)
                )
            else:
                assert per_channel
            return
        accepted += 1
        for channel, (ratio, start) in enumerate(zip(ratios, low, strict=True)):
            for position in positions:
                acc = start + int(position * width)
                theirs = oracle.rounded_once(acc, ratio, zero_point, RANGES[activation](zero_point))
                check_result(found, channel, acc, theirs)

    check()
    assert accepted > 150, "of 300"


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


@for_each("per_channel", [False, True])
@for_each(
    "real, low, high",
    [
        (0.0155, 16472, 16472),  # no weight differs from the zero point
        (0.0262, -9715, -9715),
        (0.01, (1 << 31) - 1, (1 << 31) - 1),
        (0.01, -(1 << 31), -(1 << 31)),
        (1e-6, -220616, 220045),  # every result is the zero point
        (1e-9, -264732, 258783),
        (1e-9, -(1 << 31), -(1 << 31)),
        (1e-11, -15938, 14152),  # TensorFlow Lite's multiplier is zero
    ],
)
@for_each("activation", list(RANGES))
def test_where_no_channel_varies_the_stages_are_equal(real, low, high, per_channel, activation):
    found = requantized([real] * 2, low, high, per_channel=per_channel, activation=activation)
    assert not found.proof.wrong.any()
    for accumulator in (low, (low + high) // 2, high):
        theirs = oracle.tflite(accumulator, *oracle.quantized(real), 0, RANGES[activation](0))
        assert oracle.device(found.pipeline, 0, accumulator) == theirs


@pytest.mark.parametrize("end", [-(1 << 31), (1 << 31) - 1])
@pytest.mark.parametrize("activation", list(RANGES))
def test_a_saturated_channel_takes_no_bits_from_those_with_the_same_multiplier(end, activation):
    """Pruned: no weights, and a bias at the end of int32."""
    low, high = [end, -74151, -60000], [end, 70000, 80000]
    found = requantized([0.0116] * 3, low, high, per_channel=False, activation=activation)
    assert found.proof.wrong.size == 3  # each channel is proven where it really is
    if activation is not Activation.RELU_N1_TO_1:  # there ties are rounded up
        assert not found.proof.wrong.any()
    assert found.pipeline.bs.shift <= 1


def test_large_multipliers_have_factors_of_few_bits():
    found = requantized([64.0], -8445355, 4984440, per_channel=False, activation=Activation.RELU)
    assert not found.proof.wrong.any()


@given(
    st.floats(-36, 9).map(lambda bits: 2.0**bits),
    st.lists(
        st.tuples(
            st.one_of(
                st.integers(-(2**31), 2**31 - 1),
                st.sampled_from([-(2**31), 2**31 - 1]),
                st.integers(-500, 500),  # LSB
            ),
            st.one_of(st.just(0), st.integers(0, 2**24)),
        ),
        min_size=1,
        max_size=4,
    ),
    *(ACTIVATIONS, ZERO_POINTS),
)
@settings(max_examples=400, deadline=None)
def test_layers_with_one_multiplier_are_refused_only_where_int32_wraps(
    real, ranges, activation, zero_point
):
    starts = [low if abs(low) > 500 else int(np.rint(low / real)) for low, _ in ranges]
    low = [min(max(start, -(2**31)), 2**31 - 1) for start in starts]
    high = [min(start + width, 2**31 - 1) for start, (_, width) in zip(low, ranges, strict=True)]
    how = {"per_channel": False, "activation": activation, "zero_point": zero_point}
    try:
        found = requantized([real] * len(low), low, high, **how)
    except LoweringError as error:
        assert error.rule == "accumulator_fits_int32"
        assert any(leaves_int32(end, real) for end in (*low, *high))
        return
    outputs = RANGES[activation](zero_point)
    for channel, ends in enumerate(zip(low, high, strict=True)):
        for accumulator in (*ends, sum(ends) // 2):
            theirs = oracle.tflite(accumulator, *oracle.quantized(real), zero_point, outputs)
            check_result(found, channel, accumulator, theirs)


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
    st.lists(st.integers(-128, 127), min_size=1, max_size=6),
    st.integers(-128, 127),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-128, 127),
)
@settings(max_examples=100, deadline=None)
def test_bounds_are_reached(stored, weight_zero_point, bias, zero_point):
    sums = term_sums(np.array([stored], np.int8), weight_zero_point)
    low, high = accumulator_bounds(sums, np.array([bias]), zero_point)
    weights = [w - weight_zero_point for w in stored]
    ends = [-128 - zero_point, 127 - zero_point]
    assert int(low[0]) == bias + sum(min(w * e for e in ends) for w in weights)
    assert int(high[0]) == bias + sum(max(w * e for e in ends) for w in weights)


@pytest.mark.parametrize("shape", [(1, 100_003), (7, 9_001), (300, 1), (1024, 1024)])
def test_sums_of_terms_are_those_of_the_whole(shape):
    """They are taken in blocks of channels, of which the last may be smaller."""
    weights = np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8)
    total, magnitude = term_sums(weights, -77)
    np.testing.assert_array_equal(total, (weights.astype(np.int64) + 77).sum(axis=1))
    np.testing.assert_array_equal(magnitude, abs(weights.astype(np.int64) + 77).sum(axis=1))
