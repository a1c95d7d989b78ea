"""SOFTMAX against float64 and the kernels: rows that add up errors, for every kind of chain."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from delegate.chip.chips import chip_named
from delegate.compile.compiler import compile_model
from delegate.lower.numerics import softmax as numerics
from delegate.lower.numerics import softmax_proof as proof
from delegate.lower.numerics.softmax_proof import (
    Chain,
    exponentials_of,
    is_proven,
    least_sum,
    unit_of,
)
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.npu.evidence import FormEvidence
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.options import Options
from rk3588_conformance import reference
from rk3588_conformance.builder import Net, layers, options
from rk3588_conformance.reference import exponential
from rk3588_conformance.reference.arithmetic import quantize_multiplier, scale_by
from tests.loops import for_each
from tests.ops.function_oracle import kernel_results
from tests.ops.function_oracle import simulated as simulated_by

Array = npt.NDArray[Any]

AUTO = Options(numerics="auto")
simulated = partial(simulated_by, options=AUTO)
EVERYTHING = {"has_ties_away": False, "rounds_in_bn": False, "may_split": True}
LEVELS, OFFSET = 255, -128

CHAINS = {
    (2, 0.3): (False, 1, False),
    (64, 0.36): (False, 1, False),
    (37, 3.44): (False, 2, False),
    (2, 30.0): (True, 1, False),
    (16, 37.5): (True, 2, False),
    (17, 9.0): (True, 2, False),
    (100, 25.0): (True, 2, False),
    (130, 60.0): (True, 2, True),
    (400, 9.0): (True, 4, True),
    (511, 25.0): (True, 4, True),
}
"""By classes and nats over the input's range: whether there is a maximum, the planes, and whether
the curve is split. Untrained attention, a small vision transformer, a detector's distances, others.
"""


def model(
    shape: tuple[int, ...], nats: float, dtype: DType = DType.INT8, beta: float = 1.0
) -> bytes:
    """Return a softmax whose exponents reach over ``nats``."""
    low = -128 if dtype is DType.INT8 else 0
    b = Net("softmax")
    scale = float(np.float32(nats / LEVELS / beta))
    x = b.input("x", shape, dtype, Quantization((scale,), (low + 99,)))
    result = Quantization((1 / 256,), (low,))
    return b.build(b.function("SOFTMAX", (x,), result, options.softmax(beta)))


def hostile(classes: int) -> Array:
    """Return distances from 127: for each one a row of one class and others that are as far from it
    as that; the same with two classes, all equal, and random ones near and far.
    """
    rng = np.random.default_rng(classes)
    far = np.repeat(np.arange(LEVELS + 1)[:, np.newaxis], classes, axis=1)
    one, two = far.copy(), far.copy()
    one[:, classes // 2] = 0
    two[:, [0, -1]] = 0, 1
    drawn = rng.integers(0, LEVELS + 1, (64, classes))
    near = np.minimum(rng.geometric(0.03, (64, classes)), LEVELS)
    return np.concatenate([far, one, two, drawn, near])


def shares(x: Array, step: float) -> Array:
    """Return softmax of float64, in steps of 1/256."""
    exponents = (x.astype(np.float64) - x.max(axis=-1, keepdims=True)) * step
    e = np.exp(exponents)
    return np.asarray(256 * e / e.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize(("classes", "nats"), CHAINS)
def test_hostile_rows_are_within_a_step(classes: int, nats: float) -> None:
    x = (127 - hostile(classes)).astype(np.int8)
    content = model(x.shape, nats)
    found = simulated(content, x)
    chain = numerics.softmax(0, classes, np.float32(nats / LEVELS).item(), **EVERYTHING)
    parts = chain.has_maximum, len(chain.planes.weights), chain.reciprocal.is_split
    assert parts == CHAINS[classes, nats]
    real = np.minimum(shares(x, float(np.float32(nats / LEVELS))), 255.0)
    # A step beyond the nearest one, and what the kernel itself is off by.
    assert np.abs(found.astype(int) + 128 - real).max() <= 1.5 + classes * 2.0**-12
    off = np.abs(found.astype(int) - kernel_results(content, x))
    assert off.max() <= 1
    assert off.mean() < 0.2


def test_all_pairs_of_two_classes_are_within_a_step() -> None:
    every = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=-1).reshape(256, 256, 2)
    for nats, beta in ((0.5, 1.0), (4.0, 2.0), (11.0, 0.125), (90.0, 1.0)):
        x = every.astype(np.uint8)
        content = model(x.shape, nats, DType.UINT8, beta)
        found = simulated(content, x)
        assert np.abs(found.astype(int) - kernel_results(content, x)).max() <= 1


def test_rows_wider_than_a_task_are_seen_as_shorter_ones() -> None:
    """As YOLO's distances are: what a row is does not matter. Some numbers have no divisors."""
    for shape, is_taken in (
        ((1, 4, 2100, 16), True),
        ((2, 3, 2050, 5), True),
        ((1, 3, 2111, 5), False),
    ):
        content = model(shape, 9.0)
        result = compile_model(content, AUTO)
        assert len(result.partitions) == is_taken
        if is_taken:
            rng = np.random.default_rng(shape[2])
            x = rng.integers(-128, 128, shape).astype(np.int8)
            off = np.abs(simulated(content, x).astype(int) - kernel_results(content, x))
            assert off.max() <= 1
            assert off.mean() < 0.2


def test_the_reference_is_the_kernel() -> None:
    rng = np.random.default_rng(1)
    for number in range(60):
        classes = int(rng.choice([1, 2, 3, 16, 37, 100, 400, 511]))
        x = (127 - rng.integers(0, rng.choice([3, 30, 256]), (40, classes))).astype(np.int8)
        beta = float(rng.choice([1, 0.5, 0.125, 3]))
        content = model(x.shape, 10 ** rng.uniform(-4.5, 3.5), beta=beta)
        graph = read_graph(content)
        (found,) = reference.compute(graph, {graph.inputs[0]: x})
        np.testing.assert_array_equal(found, kernel_results(content, x), str(number))


def test_the_kernel_is_as_near_to_float64_as_the_proof_takes_it_to_be() -> None:
    """By its own numbers, before they become 8 bits; below a 20th of a step they round to 0."""
    rng = np.random.default_rng(2)
    for number in range(2000):
        classes = int(rng.choice([1, 2, 3, 16, 100, 511]))
        step = 10 ** rng.uniform(-7, 1.3)
        distances = rng.integers(0, rng.choice([2, 30, 256]), (8, classes))
        distances[::2] = distances[::2, :1]
        distances[:, 0] = 0
        mantissa, left = quantize_multiplier(min(step * 2**26, 2.0**31 - 1))
        counts = -distances >= -np.floor((31 << 26) / 2.0**left)
        scaled = scale_by(np.where(counts, -distances, 0), mantissa, left)
        exponentials = np.where(counts, exponential._exponential(scaled), 0)
        sums = exponential.shifted(exponentials, 12).sum(axis=-1, keepdims=True)
        inverse, over = exponential._reciprocal(sums)
        found = inverse * exponentials * 2.0 ** -(31.0 + 23 + over)
        real = shares(-distances, step)
        error = proof._KERNEL_ERROR * (classes + proof._OTHER_ERRORS)
        off = np.abs(found - real) - error * real
        assert off.max() <= proof._LEAST_ERROR / 4, (number, classes, step)


def wrong(chain: Chain) -> list[Chain]:
    """Return chains with one fault: lost digits, a late or short curve, a short product."""
    planes, reciprocal, out = chain.planes, chain.reciprocal, chain.product.out
    least = least_sum(chain.classes, chain.step, has_maximum=chain.has_maximum)
    coarse, late = planes.coarse, int(least * planes.unit / 2)
    short = (reciprocal.entries - OFFSET * 256) // 2 + OFFSET * 256
    return [
        replace(chain, planes=replace(planes, coarse=tuple(one // 2 for one in coarse))),
        replace(chain, reciprocal=replace(reciprocal, centre=reciprocal.centre + late)),
        replace(chain, reciprocal=replace(reciprocal, entries=short)),
        replace(chain, product=replace(chain.product, out=replace(out, scale=out.scale // 2))),
    ]


@for_each("classes, nats", list(CHAINS))
def test_a_chain_that_is_wrong_is_not_proven(classes: int, nats: float) -> None:
    chain = numerics.softmax(0, classes, nats / LEVELS, **EVERYTHING)
    proven = [is_proven(one) for one in (chain, *wrong(chain))]
    assert proven == [True, False, False, False, False]


def test_a_proof_that_fails_has_a_row_that_is_off() -> None:
    """One plane less than 400 classes need is not only unproven, but wrong."""
    step = 9 / LEVELS
    unit = unit_of(least_sum(400, step, has_maximum=True))
    planes = numerics._planes(exponentials_of(step), 0)
    reciprocal = numerics._reciprocal(400, unit, planes, has_maximum=True, is_split=True)
    product = numerics._product(unit, has_ties_away=False, rounds_in_bn=False)
    assert product is not None
    assert not is_proven(Chain(400, step, True, planes, reciprocal, product))
    distances = hostile(400)[256:512]
    digits = planes.coarse[0][distances]
    inverse = reciprocal.of(digits.sum(axis=-1)).astype(np.float64)
    ours = product.run(digits + OFFSET, inverse[:, np.newaxis]) + 128
    assert np.abs(ours - np.minimum(shares(127 - distances, 9 / LEVELS), 255)).max() > 2


def test_what_cannot_be_proven_stays_on_the_cpu() -> None:
    content = model((4, 511), 9.0)
    (rejection,) = compile_model(content, AUTO).rejections
    assert rejection.rule == "within_one_lsb"
    assert "511 classes" in rejection.detail


def test_exact_leaves_it_to_the_cpu_and_so_does_a_chip_without_tables_behind_sums() -> None:
    content = model((4, 16), 9.0)
    for chosen, rule in (
        (Options(numerics="exact"), "equal_if_exact"),
        (Options(numerics="auto", chip="rk3576"), "form_is_known"),
    ):
        (rejection,) = compile_model(content, chosen).rejections
        assert rejection.rule == rule


def attention(heads: int, rows: int, width: int, nats: float) -> bytes:
    b = Net("attention")
    one = Quantization((0.02,), (3,))
    q, k, v = (b.input(name, (1, heads, rows, width), DType.INT8, one) for name in "qkv")
    scores = b.tensor("s", (1, heads, rows, rows), DType.INT8, Quantization((nats / 255,), (0,)))
    b.operator("BATCH_MATMUL", (q, k), (scores,), options.of(BatchMatMulOptions(adj_y=True)))
    result = Quantization((1 / 256,), (-128,))
    weights = b.function("SOFTMAX", (scores,), result, options.softmax())
    mixed = b.tensor("mixed", (1, heads, rows, width), DType.INT8, one)
    b.operator("BATCH_MATMUL", (weights, v), (mixed,), options.of(BatchMatMulOptions()))
    return b.build(mixed)


@for_each(
    "heads, rows, width, nats",
    [(1, 64, 32, 0.4), (3, 37, 64, 3.4), (1, 130, 32, 25.0), (2, 49, 16, 12.0)],
)
def test_attention_is_one_partition_where_its_products_are_known(
    heads: int, rows: int, width: int, nats: float
) -> None:
    """As of a board that has proved weights that are computed."""
    chip = chip_named("rk3588")
    proved = replace(chip, evidence=FormEvidence(chip, None))
    result = compile_model(attention(heads, rows, width, nats), AUTO, proved)
    assert not result.rejections
    (partition,) = result.partitions
    assert len(partition.partition.nodes) == 3


def between_convolutions(size: int, channels: int, nats: float) -> bytes:
    rng = np.random.default_rng(0)
    b = Net("between", rng)
    x = b.input("x", (1, size, size, 16), DType.INT8, Quantization((0.05,), (-3,)))
    y = b.conv(x, channels, layers.Window(3, 3))
    y = b.function("RELU", (y,), Quantization((nats / LEVELS,), (-128,)))
    shares = b.function("SOFTMAX", (y,), Quantization((1 / 256,), (-128,)), options.softmax())
    return b.build(b.conv(shares, 16, layers.Window(3, 3)))


@pytest.mark.usefixtures("weighs")
def test_the_cpu_keeps_it_wherever_that_is_faster_by_however_little() -> None:
    """Behind it there is nothing to come back for; between convolutions it saves two crossings."""
    last = model((1, 4), 0.3)
    assert {r.op for r in compile_model(last, AUTO).rejections} == {"SOFTMAX"}
    between = compile_model(between_convolutions(48, 64, 0.3), AUTO)
    assert not between.rejections
    assert len(between.partitions) == 1
