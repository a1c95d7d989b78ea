"""Every operator that is a function of one value, against the reference kernels: all 256 values of
many quantisations, by its own arithmetic and by the program on the simulator.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops import OPERATORS
from delegate.ops.gelu import GeluOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.options import Options
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.options import BuiltinOptions, of
from tests.loops import for_each
from tests.models.blocks import function_model
from tests.ops.function_oracle import RANGES, all_values, kernel_results, quantization, simulated

UNARY = sorted(op for op, found in OPERATORS.items() if found.function and len(found.inputs) == 1)
DRAWS = 16
WITHOUT_REFERENCE = ("ELU",)
"""Operators of which the runtime has one kernel, which its list of reference kernels lacks."""


def options_of(op: str, rng: np.random.Generator) -> BuiltinOptions | None:
    if op == "LEAKY_RELU":
        return of(LeakyReluOptions(float(np.float32(rng.choice((0.0, 0.01, 0.1, 0.3, 1.0, 1.7))))))
    if op == "GELU":
        return of(GeluOptions(bool(rng.integers(2))))
    return None


def quantizations(
    op: str, rng: np.random.Generator, types: tuple[DType, DType]
) -> tuple[Quantization, Quantization]:
    """Scales of input and output that fit one another, here and there equal or far apart."""
    source = quantization(rng, types[0], 10 ** rng.uniform(-3, 0.3))
    if op == "LOGISTIC":
        return source, Quantization((1 / 256,), (RANGES[types[1]][0],))
    if op == "RSQRT":
        source = Quantization(source.scales, (RANGES[types[0]][0],))
        scale = float(np.float32(10 ** rng.uniform(-4, 1) / source.scale**0.5))
        return source, quantization(rng, types[1], scale)
    ratio = 10 ** rng.uniform(-1.5, 1.5) if rng.integers(8) else 1.0
    return source, quantization(rng, types[1], source.scale * ratio)


@pytest.mark.parametrize("op", UNARY)
@for_each("types", [(a, b) for a in RANGES for b in RANGES])
def test_all_256_results_are_the_reference_kernels(op: str, types: tuple[DType, DType]) -> None:
    if op != "QUANTIZE" and types[0] is not types[1]:
        pytest.skip("one type for input and output")
    rng = np.random.default_rng(sum(op.encode()) * 4 + len(str(types)))
    compared = refused = 0
    for draw in range(DRAWS):
        source, target = quantizations(op, rng, types)
        model = function_model(op, (types[0], source), (types[1], target), options_of(op, rng))
        result = compile_model(model, Options(numerics="exact"))
        if not result.partitions:
            assert result.rejections[0].rule in {"results_defined", "int8_features"}
            refused += 1
            continue
        has_reference = op not in WITHOUT_REFERENCE
        expected = kernel_results(model, all_values(types[0]), has_reference=has_reference)
        executable = Executable(result.partitions[0].program, "simulator")
        (ours,) = executable.run([all_values(types[0]).reshape(1, 1, 1, 256)])
        np.testing.assert_array_equal(ours, expected, f"draw {draw}: {source} to {target}")
        compared += 1
    is_taken = "int8_features" not in {rule.name for rule in OPERATORS[op].rules}
    assert compared >= DRAWS / 2 or (not is_taken and types[0] is DType.UINT8), refused


SCALES = 10.0 ** np.array([-30, -7, -2, 0, 4, 7.2, 12])
"""The scales of inputs and outputs, each with each: multipliers shift by all that int32 bears, and
by more.
"""


@pytest.mark.parametrize("op", [op for op in UNARY if op != "LOGISTIC"])
def test_extreme_scales_are_the_kernels_or_refused(op: str) -> None:
    """LOGISTIC has one scale of the output."""
    rng = np.random.default_rng(sum(op.encode()))
    taken = 0
    for sources, targets in itertools.product(SCALES, repeat=2):
        source, target = (
            quantization(rng, DType.INT8, scale * rng.uniform(1, 2)) for scale in (sources, targets)
        )
        if op == "RSQRT":
            source = Quantization(source.scales, (RANGES[DType.INT8][0],))
        model = function_model(op, (DType.INT8, source), (DType.INT8, target), options_of(op, rng))
        result = compile_model(model, Options())
        if not result.partitions:
            assert result.rejections[0].rule == "results_defined"
            continue
        executable = Executable(result.partitions[0].program, "simulator")
        (ours,) = executable.run([all_values(DType.INT8).reshape(1, 1, 1, 256)])
        has_reference = op not in WITHOUT_REFERENCE
        expected = kernel_results(model, all_values(DType.INT8), has_reference=has_reference)
        np.testing.assert_array_equal(ours, expected, f"{source} to {target}")
        taken += 1
    assert taken >= len(SCALES) ** 2 / 3


def test_a_tie_is_decided_by_the_last_bit_of_the_c_librarys_tanh() -> None:
    """tanh(66 * 0.0146...) is 95.5 / 128 but for less than a bit of float32."""
    source = Quantization((0.014607356861233711,), (154,))
    target = Quantization((1 / 128,), (128,))
    model = function_model("TANH", (DType.UINT8, source), (DType.UINT8, target), None)
    expected = kernel_results(model, all_values(DType.UINT8))
    ours = simulated(model, all_values(DType.UINT8).reshape(1, 1, 1, 256))
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("first", ["RELU", "ABS"])
def test_roots_behind_what_gives_nothing_below_the_zero_point(first: str) -> None:
    """The kernel of RSQRT ends its inference at values below the zero point."""
    source, between, target = (
        Quantization((scale,), (zero_point,))
        for scale, zero_point in ((0.5, 3), (0.25, -70), (0.0625, -128))
    )
    alone = function_model("RSQRT", (DType.INT8, between), (DType.INT8, target))
    with pytest.raises(RuntimeError, match="positive values"):
        kernel_results(alone, all_values(DType.INT8))
    (rejection,) = compile_model(alone, Options(numerics="exact")).rejections
    assert rejection.rule == "results_defined"
    assert "below the zero point" in rejection.detail
    builder = ModelBuilder("roots")
    x = builder.input("input", (1, 1, 1, 256), DType.INT8, source)
    x = function(builder, first, (x,), between)
    builder.output(function(builder, "RSQRT", (x,), target))
    model = builder.build()
    ours = simulated(model, all_values(DType.INT8).reshape(1, 1, 1, 256))
    np.testing.assert_array_equal(ours, kernel_results(model, all_values(DType.INT8)))
