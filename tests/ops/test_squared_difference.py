"""SQUARED_DIFFERENCE against the reference kernels, through the simulator."""

from __future__ import annotations

import numpy as np

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.model_builder import ModelBuilder
from tests.loops import for_each
from tests.ops.function_oracle import kernel_results, quantization, simulated, values
from tests.ops.test_two_values import PAIRS, all_pairs

INT8 = DType.INT8


def squares(types: tuple[Quantization, ...], shapes: tuple[tuple[int, ...], ...]) -> bytes:
    """Return the model of two inputs of ``shapes``; ``types``: theirs and the result's."""
    builder = ModelBuilder("squares")
    a, b = (
        builder.input(name, shape, INT8, one)
        for name, shape, one in zip("ab", shapes, types, strict=False)
    )
    return builder.build(function(builder, "SQUARED_DIFFERENCE", (a, b), types[2]))


def drawn(rng: np.random.Generator, *, has_one_scale: bool) -> tuple[Quantization, ...]:
    """The result holds the square of a distance from 30 to 300 of the larger scale."""
    scale = 10 ** rng.uniform(-3, 0)
    other = scale if has_one_scale else scale * 10 ** rng.uniform(-0.7, 0.7)
    first, second = (quantization(rng, INT8, one) for one in (scale, other))
    reach = rng.uniform(30, 255 if has_one_scale else 300) * max(scale, other)
    return first, second, Quantization((float(np.float32(reach**2 / 255)),), (-128,))


@for_each("seed", range(16))
def test_all_pairs_with_two_scales_are_within_a_step_and_counted(seed: int) -> None:
    model = squares(drawn(np.random.default_rng(seed), has_one_scale=False), (PAIRS, PAIRS))
    result = compile_model(model, Options(numerics="exact"))
    if result.rejections:
        assert result.rejections[0].rule == "within_one_lsb"
        return
    pairs = list(all_pairs(INT8))
    off = np.abs(simulated(model, *pairs).astype(int) - kernel_results(model, *pairs))
    assert off.max() <= 1
    difference = result.partitions[0].layers[0].difference
    told = 0 if difference is None else difference.share * off.size
    assert int(np.count_nonzero(off)) == told


@for_each("seed", range(20))
def test_a_function_of_one_value_is_a_table(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    first, second, result = drawn(rng, has_one_scale=seed % 2 == 0)
    builder = ModelBuilder("table")
    a = builder.input("a", (1, 1, 1, 256), INT8, first)
    b = builder.constant("b", values(rng, (1,), INT8), second)
    builder.output(function(builder, "SQUARED_DIFFERENCE", (a, b), result))
    model = builder.build()
    every = [np.arange(-128, 128).astype(np.int8).reshape(1, 1, 1, 256)]
    np.testing.assert_array_equal(simulated(model, *every), kernel_results(model, *every))


def test_what_the_kernel_aborts_at_stays_on_the_cpu() -> None:
    """It asks for a factor below 1 and ends the process otherwise."""
    types = (
        Quantization((1.0,), (0,)),
        Quantization((1.0,), (0,)),
        Quantization((2.0**-12,), (0,)),
    )
    (rejection,) = compile_model(
        squares(types, ((1, 2, 3, 4),) * 2), Options(numerics="exact")
    ).rejections
    assert rejection.rule == "accumulator_fits_int32"
    assert "the kernel asks for a factor below 1" in rejection.detail
