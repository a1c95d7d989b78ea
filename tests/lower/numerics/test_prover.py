"""The prover against every accumulator one by one, and against tampered pipelines."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.lower.numerics.addition import requantize_sum, sum_target
from delegate.lower.numerics.pipeline import Ew, EwOperation, MultiplyStage, OutConvert, Pipeline
from delegate.lower.numerics.prover import prove
from delegate.lower.numerics.tflite import (
    Target,
    first_accumulators,
    first_products,
    quantize_multipliers,
    wraps,
)
from delegate.model.graph import Activation
from tests.loops import for_each
from tests.lower.numerics import oracle

RANGES = {
    Activation.NONE: (-128, 127),
    Activation.RELU: (-7, 127),
    Activation.RELU6: (-7, 91),
    Activation.RELU_N1_TO_1: (-40, 26),
}


def target_of(
    reals, low, high, zero_point=-7, outputs=(-128, 127), activation=Activation.NONE
) -> Target:
    q, exponent = quantize_multipliers(np.array(reals, np.float64))
    low, high = (np.array(np.broadcast_to(v, q.shape), np.int64) for v in (low, high))
    return Target(q, exponent, low, high, zero_point, outputs, activation=activation)


def distances(pipeline: Pipeline, target: Target, channel: int, accumulators) -> list[int]:
    q, exponent = int(target.q[channel]), int(target.exponent[channel])
    return [
        abs(
            oracle.device(pipeline, channel, acc)
            - oracle.tflite(acc, q, exponent, target.zero_point, target.outputs)
        )
        for acc in accumulators
    ]


def random_pipeline(rng: np.random.Generator, channels: int) -> Pipeline:
    """Anything that rises, mostly not far from what a multiplier below one needs."""

    def factors(most: int):
        if rng.random() < 0.3:
            return int(rng.integers(0, most))
        return rng.integers(0, most, channels)

    def clamps() -> dict[str, bool | int]:
        return {"relu": True, "relux": int(rng.integers(0, 9000))} if rng.random() < 0.3 else {}

    ew = None
    if rng.random() < 0.7:
        operation = list(EwOperation)[int(rng.integers(len(EwOperation)))]
        is_product = operation is EwOperation.MULTIPLY
        operand = 2 ** rng.integers(0, 3, channels) if is_product else int(rng.integers(-500, 500))
        ew = Ew(operation, operand, **clamps())
    bs = MultiplyStage(
        add=rng.integers(-90, 90, channels),
        multiply=factors(1 << 15),
        shift=int(rng.integers(8, 16)),
        **clamps(),
    )
    bn = MultiplyStage(
        factors(300), int(rng.integers(-999, 999)), int(rng.integers(0, 9)), **clamps()
    )
    out = OutConvert(
        int(rng.integers(1, 1 << 15)),
        int(rng.integers(10, 22)),
        int(rng.integers(-9, 9)),
        ties_away=True,
    )
    return Pipeline(bs, bn, ew, out)


@for_each("seed", range(60))
def test_the_worst_distance_is_that_of_every_accumulator(seed):
    rng = np.random.default_rng(seed)
    channels = 3
    reals = 2.0 ** rng.uniform(-9, 2, channels)
    middle = rng.integers(-300, 300, channels)
    half = rng.integers(0, 400, channels)
    outputs = RANGES[list(RANGES)[seed % 4]]
    target = target_of(reals, middle - half, middle + half, outputs=outputs)
    pipeline = random_pipeline(rng, channels)
    proof = prove(pipeline, target)
    assert proof.is_sound
    for channel in range(channels):
        low, high = int(target.low[channel]), int(target.high[channel])
        found = distances(pipeline, target, channel, range(low, high + 1))
        assert int(proof.worst[channel]) == max(found)
        assert (proof.wrong[channel] == 0) == (max(found) == 0)


@for_each("seed", range(20))
def test_first_accumulators_are_where_bisection_finds_them(seed):
    rng = np.random.default_rng(seed)
    real = float(2.0 ** rng.uniform(-34, 20))
    q, exponent = quantize_multipliers(np.array([real]))
    steps = np.arange(-256, 257)
    found = first_accumulators(q, exponent, steps)[0]
    wide = (-(1 << 40), 1 << 40)

    def result(acc: int) -> int:
        # Only where nothing wraps: left shifts of what is looked at stay inside int32.
        return oracle.tflite(acc, int(q[0]), int(exponent[0]), 0, wide)

    limit = ((1 << 31) - 300) >> max(int(exponent[0]), 0)
    for step, first in zip(steps.tolist(), found.tolist(), strict=True):
        low, high = -limit - 1, limit + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if result(middle) >= step else (middle, high)
        if -limit < high <= limit:
            assert first == high, (real, step)
        else:
            assert not -limit < first <= limit, (real, step)


@for_each("seed", range(20))
def test_first_products_are_where_a_kernel_that_rounds_once_steps(seed):
    rng = np.random.default_rng(seed)
    ratio = float(2.0 ** rng.uniform(-34, 4))
    if seed % 4 == 0:
        ratio = 2.0 ** -(seed // 2)  # exact ties
    steps = np.arange(-256, 257)
    wide = (-(1 << 40), 1 << 40)
    found = first_products(np.array([ratio]), steps)[0]
    for step, first in zip(steps.tolist(), found.tolist(), strict=True):
        if abs(first) <= 1 << 31:
            assert oracle.rounded_once(first, ratio, 0, wide) >= step
            assert oracle.rounded_once(first - 1, ratio, 0, wide) < step
        else:
            end = (1 << 31) - 1 if first > 0 else -(1 << 31)
            assert (oracle.rounded_once(end, ratio, 0, wide) >= step) == (first < 0)


@pytest.mark.parametrize("exponent", [-20, -1, 0, 1, 5, 16, 30])
def test_int32_holds_what_is_not_said_to_wrap(exponent):
    rng = np.random.default_rng(exponent + 99)
    accumulators = np.rint(2.0 ** rng.uniform(0, 31, 400)).astype(np.int64)
    accumulators *= rng.choice([-1, 1], 400)
    accumulators[:2] = (1 << 31) - 1, -(1 << 31)
    q = (1 << 31) - 1
    for acc, is_over in zip(accumulators, wraps(accumulators, np.array(exponent)), strict=True):
        exact = int(acc) * 2.0 ** max(exponent, 0) * q / 2**31
        kept = oracle.tflite(oracle.wrapped(int(acc)), q, exponent, 127, (-(1 << 40), 1 << 40))
        if not is_over:
            assert abs(kept - 127 - exact * 2.0 ** min(exponent, 0)) <= 1


def test_stages_that_fall_are_no_proof():
    target = target_of([0.01], -900, 900)
    falls = MultiplyStage(-300, 0, 8)
    for pipeline in (
        Pipeline(falls),
        Pipeline(bn=falls),
        Pipeline(ew=Ew(EwOperation.MULTIPLY, -2)),
        Pipeline(out=OutConvert(-(1 << 14), 14)),
    ):
        assert not prove(pipeline, target).is_sound


def test_a_stage_beyond_int32_is_no_proof():
    target = target_of([0.01], -(1 << 30), 1 << 30)
    pipeline = Pipeline(MultiplyStage(30000, 0, 2), out=OutConvert(1 << 14, 34, -7, ties_away=True))
    assert not prove(pipeline, target).is_sound


def test_relu_does_not_hide_a_stage_beyond_int32():
    target = target_of([0.01], -(1 << 30), 0, outputs=(-7, 127))
    pipeline = Pipeline(
        MultiplyStage(30000, 0, 2, relu=True), out=OutConvert(1 << 14, 34, -7, ties_away=True)
    )
    assert not prove(pipeline, target).is_sound


SUMS = [
    ((0.5, 0.25, 0.75), (3, -5, 7), Activation.NONE),
    ((0.0193, 0.0411, 0.0437), (5, -77, -128), Activation.RELU),
    ((0.9, 0.3, 0.7), (-1, 2, -3), Activation.RELU6),
    ((0.0234375, 0.01171875, 0.03515625), (-128, 127, 1), Activation.RELU_N1_TO_1),
]


def drawn_ew(rng: np.random.Generator) -> Ew:
    """An operation with another tensor."""
    offset, scale = int(rng.integers(-130, 130)), int(rng.integers(1, 30))
    return Ew(
        (EwOperation.ADD, EwOperation.MAX, EwOperation.MIN)[int(rng.integers(3))],
        offset=offset, scale=scale, relu=bool(rng.integers(2)), relux=int(rng.integers(50, 9000)),
    )  # fmt: skip


def tflite_sum(scales, zero_points, outputs, a: int, b: int) -> int:
    twice = 2 * max(scales[:2])
    wide = (-(1 << 40), 1 << 40)
    parts = [
        oracle.tflite((value - zero) << 20, *oracle.quantized(scale / twice), 0, wide)
        for value, zero, scale in zip((a, b), zero_points, scales, strict=False)
    ]
    output = oracle.quantized(twice / (2**20 * scales[2]))
    return oracle.tflite(sum(parts), *output, zero_points[2], outputs)


@pytest.mark.parametrize(("scales", "zero_points", "activation"), SUMS)
def test_a_sums_proof_holds_for_pairs(scales, zero_points, activation):
    scales = tuple(float(np.float32(scale)) for scale in scales)
    chosen = requantize_sum(0, scales, zero_points, activation)
    outputs = RANGES[Activation.NONE]
    if activation is not Activation.NONE:
        steps = {Activation.RELU: 1e9, Activation.RELU6: 6, Activation.RELU_N1_TO_1: 1}[activation]
        reach = int(np.floor(np.float32(steps) / np.float32(scales[2]) + 0.5))
        low = zero_points[2] - (reach if activation is Activation.RELU_N1_TO_1 else 0)
        outputs = max(-128, low), min(127, zero_points[2] + reach)
    target = sum_target(scales, zero_points, (1, 1), outputs)
    given = scales, zero_points, outputs
    assert prove(chosen.pipeline, target).is_within_one_lsb
    assert not chosen.proof.wrong.any()
    rng = np.random.default_rng(1)
    values = (-128, *range(-127, 127, 9), 127)
    pairs = [(a, b) for a in values for b in values]
    others = [replace(random_pipeline(rng, 1), ew=drawn_ew(rng)) for _ in range(20)]
    for pipeline in (chosen.pipeline, *others):
        proof = prove(pipeline, target)
        worst = max(
            abs(oracle.device(pipeline, 0, a, b) - tflite_sum(*given, a, b)) for a, b in pairs
        )
        assert proof.is_sound
        assert worst <= int(proof.worst[0]) <= worst + 20, "a pair beside these is the farthest"
