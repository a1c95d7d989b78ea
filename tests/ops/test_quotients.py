"""DIV of uint8 by a constant, against the reference kernel: all 256 dividends of many scales."""

from __future__ import annotations

import numpy as np
import pytest

from delegate.compile.compiler import CompileResult, compile_model
from delegate.model.graph import Activation, DType, Quantization
from delegate.ops.div import DivOptions
from delegate.options import Options
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.model_builder import ModelBuilder
from tests.ops.function_oracle import all_values, kernel_results, quantization, simulated

DRAWS = 120


def quotient_model(
    divisor: int, types: tuple[Quantization, ...], activation: Activation = Activation.NONE
) -> bytes:
    builder = ModelBuilder("quotient")
    x = builder.input("input", (1, 1, 1, 256), DType.UINT8, types[0])
    by = builder.constant("divisor", np.array([divisor], np.uint8), types[1])
    return builder.build(function(builder, "DIV", (x, by), types[2], DivOptions(activation)))


def compiled(model: bytes) -> CompileResult:
    return compile_model(model, Options(numerics="exact"))


def test_quotients_are_the_reference_kernels_or_refused() -> None:
    rng = np.random.default_rng(7)
    taken = 0
    for draw in range(DRAWS):
        first, second = (quantization(rng, DType.UINT8, 10 ** rng.uniform(-3, 0.3)) for _ in "ab")
        divisor = int(rng.integers(256))
        distance = max(abs(divisor - second.zero_point), 1)
        scale = first.scale / (distance * second.scale) * 10 ** rng.uniform(-1.5, 0.5)
        types = (first, second, quantization(rng, DType.UINT8, scale))
        activation = (Activation.NONE, Activation.RELU, Activation.RELU6)[draw % 3]
        model = quotient_model(divisor, types, activation)
        result = compiled(model)
        if not result.partitions:
            assert result.rejections[0].rule == "results_defined"
            continue
        ours = simulated(model, all_values(DType.UINT8).reshape(1, 1, 1, 256))
        expected = kernel_results(model, all_values(DType.UINT8))
        np.testing.assert_array_equal(ours, expected, f"{divisor}: {types}")
        taken += 1
    assert taken >= DRAWS / 2


UNIT = Quantization((0.5,), (3,))


@pytest.mark.parametrize(
    ("divisor", "scale", "told"),
    [
        (3, 0.1, "the divisor is 0"),
        (7, 1.0, "quotients are shifted by 24 to 32 bits"),  # 32 those of 0
    ],
)
def test_what_the_kernel_leaves_open_is_refused(divisor: int, scale: float, told: str) -> None:
    model = quotient_model(divisor, (UNIT, UNIT, Quantization((scale,), (3,))))
    (rejection,) = compiled(model).rejections
    assert rejection.rule == "results_defined"
    assert told in rejection.detail
