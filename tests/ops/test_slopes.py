"""PRELU with several slopes against the reference kernels: all 256 values of every channel."""

from __future__ import annotations

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.lower.numerics.looked_up import requantize_slopes
from delegate.lower.numerics.tflite import INT8_VALUES, PairTarget
from delegate.model.graph import DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder.model_builder import ModelBuilder
from tests.loops import for_each
from tests.lower.numerics import oracle
from tests.ops.function_oracle import RANGES, all_values, kernel_results, quantization, simulated

SHAPE = (1, 16, 16)
"""Pixels for every value."""


def prelu_model(
    dtype: DType, slopes: np.ndarray, quantizations: tuple[Quantization, ...], channels: int
) -> bytes:
    """``quantizations``: of input, slopes, result."""
    builder = ModelBuilder("prelu")
    x = builder.input("x", (*SHAPE, channels), dtype, quantizations[0])
    slope = builder.constant("slopes", slopes, quantizations[1])
    y = builder.result("PRELU", (x, slope), "y", (*SHAPE, channels), quantizations[2], dtype=dtype)
    return builder.build(y)


def drawn(
    rng: np.random.Generator, dtype: DType, has_powers: bool = False
) -> tuple[bytes, np.ndarray]:
    """A model, and all values in every channel. ``has_powers``: all ratios of scales are powers of
    two.
    """
    channels = int(rng.choice((1, 3, 15, 16, 17, 32, 33, 63, 64, 65, 100, 130)))
    first = 10 ** rng.uniform(-3, 0)
    scales = first, 10 ** rng.uniform(-3.5, -1), first * 10 ** rng.uniform(-0.7, 0.7)
    if has_powers:
        scales = first, 2.0**-7, first * 2.0 ** rng.integers(-2, 3)
    quantizations = tuple(quantization(rng, dtype, scale) for scale in scales)
    shape = ((channels,), (1, 1, channels), (1, 16, 16, channels), (16, 1, 1))[rng.integers(4)]
    low, high = RANGES[dtype]
    values = all_values(dtype)
    slopes = rng.integers(low, high + 1, shape).astype(values.dtype)
    model = prelu_model(dtype, slopes, quantizations, channels)
    every = np.broadcast_to(values.reshape(*SHAPE, 1), (*SHAPE, channels))
    return model, np.ascontiguousarray(every)


@for_each("seed", range(20))
def test_ties_of_the_first_rounding_make_one_step_seldom(seed: int) -> None:
    """The kernels round ties of a product up, also where that is towards zero; the DPU to even. It
    shows where the second rounding has a tie, too, with slopes of both signs.
    """
    model, values = drawn(np.random.default_rng(seed), DType.INT8, has_powers=True)
    off = np.abs(simulated(model, values).astype(int) - kernel_results(model, values))
    assert off.max() <= 1
    assert off.mean() < 0.005


def tasks_of(dtype: DType, slopes: list[int], zero_point: int) -> int:
    """Return the tasks of a PRELU of 16 channels with ``slopes`` in turn."""
    scales = Quantization((0.1,), (zero_point,)), Quantization((0.01,), (0,))
    kind = all_values(dtype).dtype
    array = np.resize(np.array(slopes, kind), (1, 1, 16))
    model = prelu_model(dtype, array, (*scales, Quantization((0.1,), (3,))), 16)
    (partition,) = compile_model(model, Options(numerics="exact")).partitions
    return len(partition.layers[0].tasks)


def test_what_one_table_can_do_is_one() -> None:
    """The same slope everywhere, and no value below the zero point."""
    assert tasks_of(DType.INT8, [50], 0) == 1
    assert tasks_of(DType.INT8, [50, 20], -128) == 1
    assert tasks_of(DType.UINT8, [50, 20], 0) == 1
    assert tasks_of(DType.INT8, [50, 20], 0) == 2


def prelu_result(value: int, slope: int, factors, zero_points) -> int:
    """In Python's whole numbers."""
    x, s = value - zero_points[0], slope - zero_points[1]
    product, factor = (x, factors[0]) if x >= 0 else (x * s, factors[1])
    return oracle.tflite(product, *oracle.quantized(factor), zero_points[2], (-128, 127))


@pytest.mark.parametrize("has_ties_away", [True, False])
def test_pipelines_are_equal_or_told(has_ties_away: bool) -> None:
    """An argument of its own says what the prover says: no more than one LSB, here none."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(40):
        zero_points = tuple(int(z) for z in rng.integers(-127, 128, 3))
        factors = tuple(float(f) for f in 10 ** rng.uniform((-1, -3.5), (1, -1)))
        slopes = np.unique(rng.integers(-128, 128, 20))
        wanted = [
            [prelu_result(x, s, factors, zero_points) for s in slopes.tolist()]
            for x in INT8_VALUES.tolist()
        ]
        target = PairTarget(np.array(wanted), slopes)
        ties = {"has_ties_away": has_ties_away}
        below, above = requantize_slopes(0, target, factors, zero_points, **ties)
        x = INT8_VALUES[:, np.newaxis].astype(np.float64)
        results = above.run(x, below.run(x, slopes.astype(float)))
        off = np.abs(results - target.wanted)
        assert off.max() <= 1
        wrong += int(np.count_nonzero(off))
    assert wrong == 0 or not has_ties_away
