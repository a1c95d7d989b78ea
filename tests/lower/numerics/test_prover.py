"""The prover against every accumulator one by one, and against tampered pipelines."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.lower.numerics import one_rounding, two_roundings
from delegate.lower.numerics.addition import requantize_sum, sum_target
from delegate.lower.numerics.factors import pipeline_of
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

    ew = None
    if rng.random() < 0.6:
        if rng.random() < 0.5:
            ew = Ew(EwOperation.MULTIPLY, 2 ** rng.integers(0, 3, channels))
        else:
            ew = Ew(EwOperation.ADD, int(rng.integers(-500, 500)))
        ew = replace(ew, relu=bool(rng.integers(2)))
        ew = replace(ew, relux=int(rng.integers(0, 9000)) if ew.relu else None)
    bs = MultiplyStage(
        add=rng.integers(-90, 90, channels),
        multiply=factors(1 << 15),
        shift=int(rng.integers(8, 16)),
    )
    bn = MultiplyStage(factors(300), int(rng.integers(-999, 999)), int(rng.integers(0, 9)))
    if rng.random() < 0.3:
        bn = replace(bn, relu=True, relux=int(rng.integers(0, 9000)))
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


PROVED = {
    "two roundings": (two_roundings.propose, Activation.RELU6),
    "for all": (two_roundings.propose_for_all, Activation.RELU6),
    "lower bound": (two_roundings.propose_for_all, Activation.RELU_N1_TO_1),
    "one rounding": (one_rounding.propose, Activation.RELU_N1_TO_1),
}


def proved(name: str) -> tuple[Pipeline, Target]:
    propose, activation = PROVED[name]
    reals = [0.0117] * 3 if "all" in name or "lower" in name else [0.0117, 0.0031, 0.0009]
    outputs = RANGES[activation]
    target = target_of(reals, -200_000, 200_000, outputs=outputs, activation=activation)
    pipeline = pipeline_of(propose(target), target)
    assert prove(pipeline, target).is_within_one_lsb
    return pipeline, target


def mutations(pipeline: Pipeline):
    """(name, pipeline) with one field changed so that results must change."""
    bs, bn, ew, out = pipeline.bs, pipeline.bn, pipeline.ew, pipeline.out
    yield "bs.add", replace(pipeline, bs=replace(bs, add=bs.add + 4000))
    yield "bs.multiply", replace(pipeline, bs=replace(bs, multiply=bs.multiply * 2 // 3))
    yield "bs.multiply < 0", replace(pipeline, bs=replace(bs, multiply=bs.multiply * -1))
    yield "bs.shift", replace(pipeline, bs=replace(bs, shift=bs.shift + 1))
    yield "bs.relu", replace(pipeline, bs=replace(bs, relu=not bs.relu, relux=None))
    yield "bs.relux", replace(pipeline, bs=replace(bs, relu=True, relux=50))
    yield "bn.multiply", replace(pipeline, bn=replace(bn, multiply=bn.multiply * 3))
    yield "bn.multiply < 0", replace(pipeline, bn=replace(bn, multiply=bn.multiply * -1))
    lsb = 2 ** (out.shift - 14)
    yield "bn.add", replace(pipeline, bn=replace(bn, add=3 * lsb << bn.shift))
    yield "bn.shift", replace(pipeline, bn=replace(bn, shift=bn.shift + 1))
    yield "bn.relu", replace(pipeline, bn=replace(bn, relu=not bn.relu, relux=None))
    yield "bn.relux", replace(pipeline, bn=replace(bn, relu=True, relux=5))
    yield "out.scale", replace(pipeline, out=replace(out, scale=out.scale * 5 // 4))
    yield "out.scale < 0", replace(pipeline, out=replace(out, scale=-out.scale))
    yield "out.shift", replace(pipeline, out=replace(out, shift=out.shift - 1))
    yield "out.offset", replace(pipeline, out=replace(out, offset=out.offset + 2))
    if ew is None:
        yield "ew", replace(pipeline, ew=Ew(EwOperation.ADD, 3 * lsb))
        return
    yield "ew", replace(pipeline, ew=None)
    yield (
        "ew.operation",
        replace(
            pipeline,
            ew=replace(
                ew, operation=next(kind for kind in EwOperation if kind is not ew.operation)
            ),
        ),
    )
    if ew.operand is not None:
        yield "ew.operand", replace(pipeline, ew=replace(ew, operand=ew.operand * 3))
        yield "ew.operand < 0", replace(pipeline, ew=replace(ew, operand=ew.operand - 4 * lsb))
    else:
        yield "ew.offset", replace(pipeline, ew=replace(ew, offset=ew.offset + 9))
        yield "ew.scale", replace(pipeline, ew=replace(ew, scale=ew.scale * 2))
    if ew.relu:
        yield "ew.relu", replace(pipeline, ew=replace(ew, relu=False, relux=None))
        yield "ew.relux", replace(pipeline, ew=replace(ew, relux=lsb))


@pytest.mark.parametrize("name", PROVED)
def test_a_changed_field_is_noticed(name):
    """Claims about changed pipelines are true of samples; seen changes are never proven."""
    pipeline, target = proved(name)
    rng = np.random.default_rng(1)
    ties = target.firsts[:, ::9].clip(-200_000, 200_000)
    noticed = []
    for field, changed in mutations(pipeline):
        proof = prove(changed, target)
        if not proof.is_sound:
            noticed.append(field)
            continue
        for channel in range(3):
            drawn = rng.integers(-200_000, 200_000, 150)
            accumulators = [*drawn, *ties[channel], -200_000, 200_000]
            found = max(distances(changed, target, channel, map(int, accumulators)))
            assert found <= int(proof.worst[channel]), field
        if int(proof.worst.max()) > 1:
            noticed.append(field)
    unchanged = {field for field, _ in mutations(pipeline)} - set(noticed)
    # A clamp at zero twice, or behind EW's own, changes nothing.
    assert unchanged <= {"bs.relu", "bn.relu", "ew.relu", "ew.operation"}, unchanged
    assert len(noticed) >= 16


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
def test_a_sums_proof_holds_for_pairs_and_notices_changes(scales, zero_points, activation):
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
    pairs = rng.integers(-128, 128, (600, 2)).tolist()
    for field, changed in [("", chosen.pipeline), *mutations(chosen.pipeline)]:
        proof = prove(changed, target)
        worst = max(
            abs(oracle.device(changed, 0, a, b) - tflite_sum(*given, a, b)) for a, b in pairs
        )
        assert not proof.is_sound or worst <= int(proof.worst[0]), field
    silent = [f for f, p in mutations(chosen.pipeline) if prove(p, target).is_within_one_lsb]
    assert set(silent) <= {"bs.relu", "bn.relu", "ew.relu"}, silent
