"""Tests functions of float32 between DEQUANTIZE and QUANTIZE: one table where all three are in a
partition, and the runtime's wherever not.
"""

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.options import Options
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.options import BuiltinOptions
from tests.loops import for_each
from tests.lower.test_aliases import run
from tests.ops.function_oracle import kernel_results, simulated

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


def steps(builder: ModelBuilder, y: int, other: int, options: dict[str, BuiltinOptions]) -> int:
    """Softplus as PyTorch's exports have it: SELECT(y > 20, ``other``, LOG(EXP(y) + 1))."""
    shape = builder.spec(y).shape
    made = {
        name: builder.tensor(name, shape, kind)
        for name, kind in (("in", DType.FLOAT32), ("exp", DType.FLOAT32), ("sum", DType.FLOAT32),
                           ("log", DType.FLOAT32), ("far", DType.BOOL))
    }  # fmt: skip
    powers = builder.tensor("powers", shape, DType.INT8, Quantization((0.4,), (-128,)))
    more = builder.tensor("more", shape, DType.INT8, Quantization((0.4,), (-128,)))
    near = builder.tensor("near", shape, DType.INT8, RESULT)
    found = builder.tensor("softplus", shape, DType.INT8, RESULT)
    one = builder.constant("one", np.array(127, np.int8), Quantization((1 / 255,), (-128,)))
    limit = builder.constant("limit", np.array(3.0, np.float32))
    builder.operator("DEQUANTIZE", (y,), (made["in"],))
    builder.operator("EXP", (made["in"],), (made["exp"],), options["EXP"])
    builder.operator("QUANTIZE", (made["exp"],), (powers,))
    builder.operator("ADD", (powers, one), (more,), AddOptions())
    builder.operator("DEQUANTIZE", (more,), (made["sum"],))
    builder.operator("LOG", (made["sum"],), (made["log"],))
    builder.operator("GREATER", (made["in"], limit), (made["far"],))
    builder.operator("QUANTIZE", (made["log"],), (near,))
    builder.operator("SELECT", (made["far"], other, near), (found,), options["SELECT"])
    return found


KINDS = {"EXP": BuiltinOptions(33, {}), "SELECT": BuiltinOptions(47, {})}


def softplus(*, two: bool = False) -> bytes:
    """Softplus of a function; ``two``: what is chosen for large values is another input."""
    builder, shape = ModelBuilder("softplus"), (1, 4, 5, 19)
    x = builder.input("x", shape, DType.INT8, SCALE)
    y = function(builder, "RELU6", (x,), SCALE)
    other = builder.input("other", shape, DType.INT8, RESULT) if two else function(
        builder, "QUANTIZE", (y,), RESULT
    )  # fmt: skip
    builder.output(function(builder, "TANH", (steps(builder, y, other, KINDS),), RESULT))
    return builder.build()


SOFTPLUS = "RELU6,QUANTIZE,DEQUANTIZE,EXP,ADD,LOG,GREATER,SELECT,TANH"


@pytest.mark.parametrize("denied", ["", "EXP", "GREATER", "SELECT", "LOG", "ADD", "2", "9", "10"])
def test_softplus_is_what_the_runtime_computes(denied: str) -> None:
    given = softplus()
    for ours, theirs in zip(results(given, denied), results(given, SOFTPLUS), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_all_of_softplus_is_one_table() -> None:
    result = compile_model(softplus(), Options.from_mapping({"deny_ops": ""}, {}))
    assert not result.rejections
    (compiled,) = result.partitions
    assert [len(layer.nodes) for layer in compiled.layers] == [12]


def test_what_chooses_between_two_inputs_stays_with_the_runtime() -> None:
    given = softplus(two=True)
    result = compile_model(given, Options.from_mapping({"deny_ops": ""}, {}))
    found = {one.op: one.rule for one in result.rejections}
    assert found["SELECT"] == "of_one_value"
    rng = np.random.default_rng(4)
    arrays = [rng.integers(-128, 128, (1, 4, 5, 19)).astype(np.int8) for _ in range(2)]
    for ours, theirs in zip(run(given, arrays, ""), run(given, arrays, SOFTPLUS), strict=True):
        np.testing.assert_array_equal(ours, theirs)


REALS = {
    "LEAKY_RELU": LeakyReluOptions(0.1), "RELU6": None, "RELU_N1_TO_1": None,
    "RELU_0_TO_1": None, "ABS": BuiltinOptions(78, {}), "EXP": KINDS["EXP"],
}  # fmt: skip


@pytest.mark.parametrize("op", REALS)
@for_each("seed", range(6))
def test_every_value_is_the_runtimes(op: str, seed: int) -> None:
    builder, rng = ModelBuilder(op), np.random.default_rng(seed)
    kind = DType.INT8 if seed % 2 else DType.UINT8
    least = -128 if seed % 2 else 0
    zeros = rng.integers(least, least + 256, 2).tolist()
    scales = [float(np.float32(10 ** rng.uniform(-2.5, -1.2))) for _ in range(2)]
    given, made = (Quantization((s,), (z,)) for s, z in zip(scales, zeros, strict=True))
    x = builder.input("x", (1, 16, 16, 1), kind, given)
    real, result = (builder.tensor(n, (1, 16, 16, 1), DType.FLOAT32) for n in ("real", "result"))
    z = builder.tensor("z", (1, 16, 16, 1), kind, made)
    builder.operator("DEQUANTIZE", (x,), (real,))
    builder.operator(op, (real,), (result,), REALS[op])
    builder.operator("QUANTIZE", (result,), (z,))
    model = builder.build(z)
    every = np.arange(least, least + 256).astype(kind.name.lower()).reshape(1, 16, 16, 1)
    np.testing.assert_array_equal(simulated(model, every), kernel_results(model, every))
