"""Tests maps that follow from shapes, the first states of recurrent layers, and what is computed
from such constants: in every batch what the reference kernels give, and in the readers' partition.
"""

from dataclasses import replace

import numpy as np
import pytest

from delegate.compile.aot.rewrite import compile_ahead_of_time
from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.mul import MulOptions
from delegate.ops.pack import PackOptions
from delegate.ops.shared.shape_arithmetic import with_shape_constants
from delegate.ops.strided_slice import StridedSliceOptions
from delegate.options import Options
from delegate.partition.half import as_computed
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.options import BuiltinOptions
from tests.inferences import assert_same, interpreter_of
from tests.loops import for_each
from tests.partition.test_shape_arithmetic import batch_of, number, run

SCALE = Quantization((0.05,), (3,))
STATE = Quantization((0.02,), (-7,))
SUMS = Quantization((0.03,), (5,))


def repeated(builder: Net, batch: int, sides: tuple[int, ...], value: np.ndarray) -> int:
    """``value`` in every place of a map of ``sides`` per image: by FILL, or BROADCAST_TO."""
    wanted = builder.tensor(f"wanted {sides}", (len(sides) + 1,), DType.INT32)
    ends = [number(builder, side, scalar=True) for side in sides]
    builder.operator("PACK", (batch, *ends), (wanted,), PackOptions(len(sides) + 1, 0))
    given = builder.constant(f"value of {sides}", value, STATE)
    state = builder.tensor(f"state {sides}", (1, *sides), DType.INT8, STATE,
                           shape_signature=(-1, *sides))  # fmt: skip
    if value.ndim == 0:
        builder.operator("FILL", (wanted, given), (state,), BuiltinOptions(66, {}))
    else:
        options = BuiltinOptions(99, {})
        builder.operator("BROADCAST_TO", (given, wanted), (state,), options, version=2)
    return state


def recurrent_model(value: np.ndarray, *, state_is_output: bool = False) -> bytes:
    """A cell's first step: its state is of the batch, times weights, cut, and added; and joined."""
    builder, rng = Net("recurrent"), np.random.default_rng(5)
    x = builder.input("x", (1, 32), DType.INT8, SCALE, shape_signature=(-1, 32))
    y = builder.function("RELU", (x,), SCALE)
    state = repeated(builder, batch_of(builder, y), (32,), value)
    weights = builder.constant(
        "weights", rng.integers(-127, 128, (64, 32)).astype(np.int8), Quantization((0.01,), (0,))
    )
    bias = builder.constant("bias", rng.integers(-9999, 9999, 64).astype(np.int32))
    sums = builder.tensor("sums", (1, 64), DType.INT8, SUMS, shape_signature=(-1, 64))
    builder.operator("FULLY_CONNECTED", (state, weights, bias), (sums,), FullyConnectedOptions())
    parts = []
    for first in (0, 32):
        part = builder.tensor(f"part {first}", (1, 32), DType.INT8, SUMS, shape_signature=(-1, 32))
        ends = [number(builder, *at) for at in ((0, first), (0, first + 32), (1, 1))]
        builder.operator("STRIDED_SLICE", (sums, *ends), (part,), StridedSliceOptions(1, 1))
        parts.append(part)
    gate = builder.function("LOGISTIC", (parts[0],), Quantization((1 / 256,), (-128,)))
    added = builder.function("MUL", (y, gate), SCALE, MulOptions())
    added = builder.function("ADD", (added, parts[1]), STATE, AddOptions())
    joined = builder.tensor("joined", (1, 64), DType.INT8, STATE, shape_signature=(-1, 64))
    builder.operator("CONCATENATION", (added, state), (joined,), ConcatenationOptions(1))
    builder.output(builder.function("RELU", (joined,), STATE))
    if state_is_output:
        builder.output(state)
    return builder.build()


VALUES = (np.array(-7, np.int8), np.array(90, np.int8), np.arange(-60, 68, 4, np.int8)[np.newaxis])
OPTIONS = {"strict": "false", "deny_ops": "NONE", "log_level": "info"}


@pytest.mark.parametrize("value", VALUES, ids=("zeros", "value", "row"))
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_every_batch_is_the_reference_kernels(value, batch: int, caplog) -> None:
    model = recurrent_model(value)
    ours, theirs = run(model, batch, **OPTIONS), run(model, batch)
    assert ours[0].shape == (batch, 64)
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert "13 of 13 nodes delegated in 1 partition" in caplog.text
    assert "run on the CPU" not in caplog.text


def test_a_cached_program_claims_the_same_nodes(tmp_path, caplog) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    model, options = recurrent_model(VALUES[1]), {"cache_dir": str(tmp_path / "cache"), **OPTIONS}
    for batch in (1, 1, 3):
        ours, theirs = run(model, batch, **options), run(model, batch)
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert "13 of 13 nodes delegated in 1 partition" in caplog.text
        assert "is not used" not in caplog.text
        caplog.clear()
    assert len(list((tmp_path / "cache").glob("*.rkc"))) == 1


def test_a_compiled_model_has_one_node() -> None:
    options = Options.from_mapping({"deny_ops": "NONE", "numerics": "exact"}, {})
    compiled = compile_ahead_of_time(recurrent_model(VALUES[1]), options).content
    assert [node.op for node in read_graph(compiled).nodes] == ["CUSTOM:rk3588-npu"]


def test_a_state_that_somebody_else_reads_stays_with_the_runtime() -> None:
    """So do its readers: what they read is of the batch that the runtime has, not ours."""
    model = recurrent_model(VALUES[0], state_is_output=True)
    result = compile_model(model, Options.from_mapping({"deny_ops": "NONE"}, {}))
    rules = {r.op: r.rule for r in result.rejections}
    assert rules["FULLY_CONNECTED"] == rules["CONCATENATION"] == "readers_taken"
    for batch in (1, 3):
        ours, theirs = run(model, batch, deny_ops="NONE", log_level="error"), run(model, batch)
        assert_same(ours, theirs)


def constants_model(seed: int) -> tuple[bytes, dict[int, bool]]:
    """Random nodes of constants alone, whose results are outputs; and whether each is known: those
    of convolutions are if they read zeros.
    """
    builder, rng = Net("constants"), np.random.default_rng(seed)
    builder.input("x", (1, 4), DType.INT8, SCALE)
    kinds = ("FULLY_CONNECTED", "CONV_2D", "ADD", "MUL", "LOGISTIC", "STRIDED_SLICE", "SPLIT")
    made: dict[int, bool] = {}
    for count in range(6):
        kind = kinds[int(rng.integers(len(kinds)))]
        zero = int(rng.integers(-20, 20))
        scale = Quantization((float(np.float32(10 ** rng.uniform(-3, -1))),), (zero,))
        y = Quantization((float(np.float32(10 ** rng.uniform(-3, -1))),), (zero + 3,))
        shape = (1, 4, 5, 6) if kind == "CONV_2D" else (3, 6)
        values = rng.integers(-128, 128, shape).astype(np.int8)
        is_known = kind != "CONV_2D" or bool(rng.integers(4))
        if kind == "CONV_2D" and is_known:
            values[:] = zero
        c = builder.constant(f"c {count}", values, scale)
        weights = rng.integers(-127, 128, (4, 6)).astype(np.int8)
        scales = 10 ** rng.uniform(-3, -1, 4 if kind == "CONV_2D" else 1)
        own = Quantization(tuple(map(float, np.float32(scales))), (0,) * scales.size)
        units = Quantization(tuple(scale.scale * one for one in own.scales), (0,) * len(own.scales))
        terms = rng.integers(-9999, 9999, 4).astype(np.int32)
        bias = builder.constant(f"bias {count}", terms, units)
        activation = (Activation.NONE, Activation.RELU)[int(rng.integers(2))]
        if kind == "FULLY_CONNECTED":
            w = builder.constant(f"w {count}", weights, own)
            r = builder.tensor(f"r {count}", (3, 4), DType.INT8, y)
            options = FullyConnectedOptions(activation=activation)
            builder.operator(kind, (c, w, bias), (r,), options)
        elif kind == "CONV_2D":
            w = builder.constant(f"w {count}", weights.reshape(4, 1, 1, 6), own)
            r = builder.tensor(f"r {count}", (1, 4, 5, 4), DType.INT8, y)
            builder.operator(kind, (c, w, bias), (r,), ConvOptions(activation=activation))
        elif kind in ("ADD", "MUL"):
            other = builder.constant(f"o {count}", values[0] ^ 0x5A, SCALE)
            r = builder.tensor(f"r {count}", (3, 6), DType.INT8, y)
            options = AddOptions() if kind == "ADD" else MulOptions()
            builder.operator(kind, (c, other), (r,), options)
        elif kind == "LOGISTIC":
            r = builder.function(kind, (c,), Quantization((1 / 256,), (-128,)))
        elif kind == "STRIDED_SLICE":
            ends = [number(builder, *at) for at in ((0, 1), (3, 6), (2, 2))]
            r = builder.tensor(f"r {count}", (2, 3), DType.INT8, scale)
            builder.operator(kind, (c, *ends), (r,), StridedSliceOptions())
        else:
            axis = number(builder, 1, scalar=True)
            parts = [builder.tensor(f"r {count} {n}", (3, 2), DType.INT8, scale) for n in range(3)]
            builder.operator(kind, (axis, c), tuple(parts), BuiltinOptions(35, {0: b"\3\0\0\0"}))
            made.update(dict.fromkeys(parts, True))
            continue
        made[r] = is_known
    return builder.build(*made), made


@for_each("seed", range(40))
def test_results_of_constants_are_the_runtimes(seed: int) -> None:
    model, made = constants_model(seed)
    interpreter = interpreter_of(model)
    interpreter.invoke()
    graph = as_computed(read_graph(model), Options())
    for index, is_known in made.items():
        constant = graph.tensor(index).constant
        assert (constant is not None) == is_known, graph.tensor(index).name
        if constant is not None:
            np.testing.assert_array_equal(constant, interpreter.get_tensor(index))


def test_maps_that_the_runtime_refuses_or_that_are_too_large_are_left_to_it() -> None:
    model = recurrent_model(VALUES[1])
    graph = read_graph(model)
    (fill,) = (node for node in graph.nodes if node.op == "FILL")
    made = with_shape_constants(graph)
    assert made.tensor(fill.outputs[0]).constant is not None
    value, state = (graph.tensor(t) for t in (fill.inputs[1], fill.outputs[0]))
    wrong = (
        replace(value, constant=np.zeros(2, np.int8), shape=(2,)),
        replace(value, quantization=SUMS),
        replace(value, constant=None),
        replace(value, is_variable=True),
        replace(value, dtype=DType.UINT8),
    )
    for one in wrong:
        tensors = [one if t.index == one.index else t for t in graph.tensors]
        left = with_shape_constants(replace(graph, tensors=tuple(tensors)))
        assert state.index not in left.folded
    for inputs in ((), fill.inputs[:1], fill.inputs * 2):
        nodes = [replace(n, inputs=inputs) if n is fill else n for n in graph.nodes]
        assert state.index not in with_shape_constants(replace(graph, nodes=tuple(nodes))).folded
    (first,) = (node for node in graph.nodes if node.op == "SHAPE")
    shape = graph.tensor(first.inputs[0])
    tensors = [replace(t, shape=(1 << 20, *t.shape[1:])) if t is shape else t
               for t in graph.tensors]  # fmt: skip
    assert state.index not in with_shape_constants(replace(graph, tensors=tuple(tensors))).folded
