"""Tests functions of float32 between DEQUANTIZE and QUANTIZE: one table where all three are in a
partition, and the runtime's wherever not.
"""

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.model_builder import ModelBuilder
from tests.lower.test_aliases import run

SCALE, RESULT = Quantization((0.05,), (3,)), Quantization((0.06,), (-9,))


def model(*, shown: str = "") -> bytes:
    """RELU, NEG in float32, and RELU. ``shown``: also an output, of the float32 tensors."""
    builder = ModelBuilder("real")
    x = builder.input("x", (1, 4, 5, 19), DType.INT8, SCALE)
    y = function(builder, "RELU", (x,), SCALE)
    tensors = {
        name: builder.tensor(name, (1, 4, 5, 19), DType.FLOAT32) for name in ("real", "negative")
    }
    builder.operator("DEQUANTIZE", (y,), (tensors["real"],))
    builder.operator("NEG", (tensors["real"],), (tensors["negative"],))
    z = builder.tensor("z", (1, 4, 5, 19), DType.INT8, RESULT)
    builder.operator("QUANTIZE", (tensors["negative"],), (z,))
    builder.output(function(builder, "RELU6", (z,), RESULT))
    if shown:
        builder.output(tensors[shown])
    return builder.build()


def results(given: bytes, deny_ops: str) -> list[np.ndarray]:
    x = np.random.default_rng(4).integers(-128, 128, (1, 4, 5, 19)).astype(np.int8)
    return run(given, [x], deny_ops)


EVERY_NODE = "RELU,DEQUANTIZE,NEG,QUANTIZE,RELU6"


@pytest.mark.parametrize("shown", ["", "real", "negative"])
@pytest.mark.parametrize("deny_ops", ["", "NEG", "QUANTIZE", "DEQUANTIZE", "RELU", "RELU6"])
def test_whoever_computes_it_the_results_are_the_same(shown: str, deny_ops: str) -> None:
    given = model(shown=shown)
    for ours, theirs in zip(results(given, deny_ops), results(given, EVERY_NODE), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_all_of_it_is_one_table() -> None:
    (compiled,) = compile_model(model(), Options.from_mapping({"deny_ops": ""}, {})).partitions
    assert [layer.nodes for layer in compiled.layers] == [(0, 1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("denied", "shown", "rule"),
    [("QUANTIZE", "", "host_converts"), ("", "real", "between_eight_bits")],
)
def test_a_part_of_it_stays_with_the_runtime(denied: str, shown: str, rule: str) -> None:
    options = Options.from_mapping({"deny_ops": denied}, {})
    found = {one.op: one.rule for one in compile_model(model(shown=shown), options).rejections}
    assert found["NEG"] == rule
