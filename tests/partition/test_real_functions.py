"""Tests functions of float32 between DEQUANTIZE and QUANTIZE: one table where all three are in a
partition, and the runtime's wherever not.
"""

import itertools

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.options import BuiltinOptions
from tests.inferences import assert_same, outputs
from tests.loops import for_each
from tests.lower.test_aliases import run
from tests.ops.function_oracle import kernel_results, simulated

SCALE, RESULT = Quantization((0.05,), (3,)), Quantization((0.06,), (-9,))


def model(*, shown: str = "") -> bytes:
    """RELU, NEG in float32, and RELU. ``shown``: also an output, of the float32 tensors."""
    builder = Net("real")
    x = builder.input("x", (1, 4, 5, 19), DType.INT8, SCALE)
    y = builder.function("RELU", (x,), SCALE)
    tensors = {
        name: builder.tensor(name, (1, 4, 5, 19), DType.FLOAT32) for name in ("real", "negative")
    }
    builder.operator("DEQUANTIZE", (y,), (tensors["real"],))
    builder.operator("NEG", (tensors["real"],), (tensors["negative"],))
    z = builder.tensor("z", (1, 4, 5, 19), DType.INT8, RESULT)
    builder.operator("QUANTIZE", (tensors["negative"],), (z,))
    builder.output(builder.function("RELU6", (z,), RESULT))
    if shown:
        builder.output(tensors[shown])
    return builder.build()


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


def steps(builder: Net, y: int, other: int, options: dict[str, BuiltinOptions]) -> int:
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
    builder, shape = Net("softplus"), (1, 4, 5, 19)
    x = builder.input("x", shape, DType.INT8, SCALE)
    y = builder.function("RELU6", (x,), SCALE)
    if two:
        other = builder.input("other", shape, DType.INT8, RESULT)
    else:
        other = builder.function("QUANTIZE", (y,), RESULT)
    builder.output(builder.function("TANH", (steps(builder, y, other, KINDS),), RESULT))
    return builder.build()


def results(given: bytes, deny_ops: str) -> list[np.ndarray]:
    x = np.random.default_rng(4).integers(-128, 128, (1, 4, 5, 19)).astype(np.int8)
    return run(given, [x], deny_ops)


SOFTPLUS = "RELU6,QUANTIZE,DEQUANTIZE,EXP,ADD,LOG,GREATER,SELECT,TANH"


@pytest.mark.parametrize("denied", ["", "EXP", "GREATER", "SELECT", "LOG", "ADD", "2", "9", "10"])
def test_softplus_is_what_the_runtime_computes(denied: str) -> None:
    given = softplus()
    assert_same(results(given, denied), results(given, SOFTPLUS))


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
    assert_same(run(given, arrays, ""), run(given, arrays, SOFTPLUS))


@pytest.mark.parametrize("scales", [(0.05, 0.011), (0.001, 0.001), (1 / 256, 1 / 256)])
@pytest.mark.parametrize("op", ["GREATER", "GREATER_EQUAL", "LESS_EQUAL"])
def test_comparisons_of_8_bits_are_what_the_runtime_computes(
    op: str, scales: tuple[float, float]
) -> None:
    """Its kernel scales both operands, and tells no values apart that are nearer than 1/256."""
    builder, shape = Net("bytes"), (1, 4, 5, 19)
    ours, theirs = (
        Quantization((scale,), (zero,)) for scale, zero in zip(scales, (3, -20), strict=True)
    )
    y = builder.input("x", shape, DType.INT8, ours)
    limit = builder.constant("limit", np.array(-60, np.int8), theirs)
    truth = builder.result(op, (y, limit), "truth", shape, dtype=DType.BOOL)
    less = builder.function("RELU", (y,), ours)
    chosen = builder.tensor("chosen", shape, DType.INT8, ours)
    builder.operator("SELECT", (truth, y, less), (chosen,), KINDS["SELECT"])
    builder.output(chosen)
    given = builder.build()
    assert_same(results(given, ""), results(given, f"RELU,{op},SELECT"))


REALS = {
    "LEAKY_RELU": LeakyReluOptions(0.1), "RELU6": None, "RELU_N1_TO_1": None,
    "RELU_0_TO_1": None, "ABS": BuiltinOptions(78, {}), "EXP": KINDS["EXP"],
}  # fmt: skip


@pytest.mark.parametrize("op", REALS)
@for_each("seed", range(6))
def test_every_value_is_the_runtimes(op: str, seed: int) -> None:
    builder, rng = Net(op), np.random.default_rng(seed)
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


class Drawn:
    """A model of nodes of float32, truth values and 8 bits, drawn at random, and its outputs."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = Net("drawn")
        self.names = itertools.count()
        shape = (1, 4, 5, 16)
        inputs = [self.builder.input(name, shape, DType.INT8, self.scale()) for name in ("x", "o")]
        first = self.builder.function("RELU6", inputs[:1], self.scale())
        self.eights, self.reals, self.truths = [first, *inputs[self.rng.integers(1, 3) :]], [], []
        for _ in range(int(self.rng.integers(4, 14))):
            self.step()
        found = {self.eights[-1], self.pick(self.eights), *self.reals[:: self.rng.integers(2, 9)]}
        self.outputs = sorted(found.difference(inputs))

    def scale(self, most: float = -1.2) -> Quantization:
        scale = float(np.float32(10 ** self.rng.uniform(-2.5, most)))
        return Quantization((scale,), (int(self.rng.integers(-128, 128)),))

    def pick(self, some):
        return some[int(self.rng.integers(len(some)))]

    def put(self, op, inputs, found, kind, quantization=None, options=None) -> None:
        result = self.builder.tensor(f"{next(self.names)}", (1, 4, 5, 16), kind, quantization)
        self.builder.operator(op, inputs, (result,), options)
        found.append(result)

    def number(self) -> int:
        shapes = ((), (), (1,), (1, 1), (1, 1, 1, 1), (16,), (1, 4, 5, 16))
        shape = self.pick(shapes if self.rng.random() < 0.1 else shapes[:5])
        value = self.rng.normal(size=shape).astype(np.float32)
        return self.builder.constant(f"number {next(self.names)}", value)

    def step(self) -> None:
        which = self.rng.random()
        if which < 0.25 or not self.reals:
            self.put("DEQUANTIZE", (self.pick(self.eights),), self.reals, DType.FLOAT32)
        elif which < 0.5:
            op = self.pick(("NEG", "MINIMUM", "LEAKY_RELU", "RELU6", "RELU_N1_TO_1", "ABS"))
            more = (self.number(),) if op == "MINIMUM" else ()
            given = (self.pick(self.reals), *more)
            self.put(op, given, self.reals, DType.FLOAT32, options=REALS.get(op))
        elif which < 0.62:
            op = self.pick(("GREATER", "GREATER_EQUAL", "LESS_EQUAL"))
            self.put(op, (self.pick(self.reals), self.number()), self.truths, DType.BOOL)
        elif which < 0.85 or not self.truths:
            given = (self.pick(self.reals),)
            self.put("QUANTIZE", given, self.eights, DType.INT8, self.scale(-0.8))
        else:
            one = self.pick(self.eights)
            scaling = self.builder.spec(one).quantization
            alike = [t for t in self.eights if self.builder.spec(t).quantization == scaling]
            given = (self.pick(self.truths), one, self.pick(alike))
            self.put("SELECT", given, self.eights, DType.INT8, scaling, KINDS["SELECT"])


@for_each("seed", range(60))
def test_whatever_is_drawn_is_what_the_runtime_computes(seed: int) -> None:
    drawn = Drawn(seed)
    for output in drawn.outputs:
        drawn.builder.output(output)
    given = drawn.builder.build()
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-128, 128, (1, 4, 5, 16)).astype(np.int8) for _ in range(2)]
    expected = outputs(given, *arrays)
    for denied in ("NONE", drawn.pick(("ABS", "QUANTIZE", "DEQUANTIZE", "SELECT", "3", "5"))):
        options = Options.from_mapping({"deny_ops": denied}, {})
        rules = {one.rule for one in compile_model(given, options).rejections}
        assert "partition_compiles" not in rules
        made = outputs(given, *arrays, deny_ops=denied, device="simulator", log_level="error")
        assert_same(made, expected)


@pytest.mark.parametrize("denied", ["", "GREATER"])
@pytest.mark.parametrize("is_read", [True, False])
def test_a_choice_that_no_table_makes_is_refused_alone(denied: str, is_read: bool) -> None:
    """Between two inputs, or by a truth value that the CPU computes; also where nobody reads it."""
    builder, shape = Net("choice"), (1, 4, 5, 16)
    x, other = (builder.input(name, shape, DType.INT8, SCALE) for name in ("x", "other"))
    real = builder.tensor("real", shape, DType.FLOAT32)
    truth = builder.tensor("truth", shape, DType.BOOL)
    chosen = builder.tensor("chosen", shape, DType.INT8, SCALE)
    builder.operator("DEQUANTIZE", (x,), (real,))
    limit = builder.constant("limit", np.array(3.0, np.float32))
    builder.operator("GREATER", (real, limit), (truth,))
    builder.operator("SELECT", (truth, x, other if is_read else x), (chosen,), KINDS["SELECT"])
    builder.output(builder.function("TANH", (other,), SCALE))
    if is_read:
        builder.output(chosen)
    result = compile_model(builder.build(), Options.from_mapping({"deny_ops": denied}, {}))
    rules = {one.op: one.rule for one in result.rejections}
    assert "TANH" not in rules
    assert "partition_compiles" not in rules.values()
