"""Tests what follows from shapes: constants, right in every batch, claimed if no one reads it."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.compile.aot.rewrite import compile_ahead_of_time
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.gather import GatherOptions
from delegate.ops.mul import MulOptions
from delegate.ops.pack import PackOptions
from delegate.ops.shared.reductions import ReducerOptions
from delegate.ops.shared.shape_arithmetic import with_shape_constants
from delegate.ops.strided_slice import StridedSliceOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.options import BuiltinOptions
from tests.inferences import assert_same, drawn_int8, interpreter_of, invoke
from tests.loops import for_each

SCALE = Quantization((0.05,), (3,))
SHAPE_OPTIONS = BuiltinOptions(55, {0: b"\2"})
"""The result is int32."""
FIRST = StridedSliceOptions(shrink_axis_mask=1)


def number(builder: Net, *values: int, scalar: bool = False) -> int:
    array = np.array(values[0] if scalar else values, np.int32)
    return builder.constant(f"number {values}", array)


def batch_of(builder: Net, x: int) -> int:
    """The number of images, as Keras writes it."""
    rank = len(builder.spec(x).shape)
    shape = builder.tensor(f"shape {x}", (rank,), DType.INT32)
    builder.operator("SHAPE", (x,), (shape,), SHAPE_OPTIONS)
    ends = [number(builder, n) for n in (0, 1, 1)]
    batch = builder.tensor(f"batch {x}", (), DType.INT32)
    builder.operator("STRIDED_SLICE", (shape, *ends), (batch,), FIRST)
    return batch


def reshaped_model(*, shape_is_output: bool = False) -> bytes:
    """A function of a map whose rows are joined, at the batch that is found while it runs."""
    builder = Net("reshaped")
    x = builder.input("x", (1, 4, 8, 32), DType.INT8, SCALE, shape_signature=(-1, 4, 8, 32))
    y = builder.function("RELU", (x,), SCALE)
    sides = [number(builder, n, scalar=True) for n in (2, 16, 32)]
    wanted = builder.tensor("wanted", (4,), DType.INT32)
    builder.operator("PACK", (batch_of(builder, y), *sides), (wanted,), PackOptions(4, 0))
    z = builder.tensor("z", (1, 2, 16, 32), DType.INT8, SCALE, shape_signature=(-1, 2, 16, 32))
    builder.operator("RESHAPE", (y, wanted), (z,))
    builder.output(builder.function("RELU", (z,), SCALE))
    if shape_is_output:
        builder.output(wanted)
    return builder.build()


def run(model: bytes, batch: int, **options: str) -> list[np.ndarray]:
    """All outputs at ``batch`` images; without options on the CPU."""
    if options:
        options = {"device": "simulator", "numerics": "exact", **options}
    interpreter = interpreter_of(model, **options)
    (details,) = interpreter.get_input_details()
    return invoke(interpreter, drawn_int8((batch, *details["shape"][1:]), batch))


def dense_model() -> bytes:
    """Dense of rank 3 as Keras 3 has it: sides of a matrix whose shape the file leaves open."""
    builder, rng = Net("dense"), np.random.default_rng(3)
    x = builder.input("x", (1, 6, 32), DType.INT8, SCALE, shape_signature=(-1, 6, 32))
    y = builder.function("RELU", (x,), SCALE)
    shape = builder.tensor("shape", (3,), DType.INT32)
    builder.operator("SHAPE", (y,), (shape,), SHAPE_OPTIONS)
    sides = []
    for axes in ((0, 1), (2,)):
        taken = builder.tensor(f"taken {axes}", (len(axes),), DType.INT32)
        builder.operator("GATHER", (shape, number(builder, *axes)), (taken,), GatherOptions())
        sides.append(builder.tensor(f"side {axes}", (), DType.INT32))
        builder.operator("REDUCE_PROD", (taken, number(builder, 0)), sides[-1:], ReducerOptions())
    wanted = builder.tensor("wanted", (2,), DType.INT32)
    builder.operator("PACK", sides, (wanted,), PackOptions(2, 0))
    matrix = builder.tensor("matrix", (1, 1), DType.INT8, SCALE, shape_signature=(-1, -1))
    builder.operator("RESHAPE", (y, wanted), (matrix,))
    weights = builder.constant(
        "weights", rng.integers(-127, 128, (16, 32)).astype(np.int8), Quantization((0.01,), (0,))
    )
    z = builder.tensor("z", (1, 16), DType.INT8, SCALE, shape_signature=(-1, 16))
    builder.operator("FULLY_CONNECTED", (matrix, weights, -1), (z,), FullyConnectedOptions())
    back = builder.tensor("back", (3,), DType.INT32)
    numbers = [number(builder, n, scalar=True) for n in (6, 16)]
    builder.operator("PACK", (batch_of(builder, y), *numbers), (back,), PackOptions(3, 0))
    result = builder.tensor("result", (1, 6, 16), DType.INT8, SCALE, shape_signature=(-1, 6, 16))
    builder.operator("RESHAPE", (z, back), (result,))
    return builder.build(builder.function("RELU", (result,), SCALE))


def shuffled_model(*, shape_is_output: bool = False) -> bytes:
    """A shuffle of channels as Keras has it: each reshape asks for the shape of what it reads."""
    builder = Net("shuffled", np.random.default_rng(5))
    x = builder.input("x", (1, 5, 7, 96), DType.INT8, SCALE, shape_signature=(-1, 5, 7, 96))
    before = y = builder.conv(x, 96, Window(1, 1))
    for shape in ((1, 5, 7, 2, 48), (1, 5, 7, 96)):
        sides = [number(builder, n, scalar=True) for n in shape[1:]]
        wanted = builder.tensor("wanted", (len(shape),), DType.INT32)
        pack = PackOptions(len(shape), 0)
        builder.operator("PACK", (batch_of(builder, y), *sides), (wanted,), pack)
        z = builder.tensor("z", shape, DType.INT8, builder.scaling(before))
        builder.operator("RESHAPE", (y, wanted), (z,))
        y = builder.transpose(z, (0, 1, 2, 4, 3)) if len(shape) == 5 else z
    builder.output(builder.conv(y, 32, Window(1, 1)))
    if shape_is_output:
        builder.output(wanted)
    return builder.build()


@pytest.mark.parametrize("shape_is_output", [False, True])
def test_who_reads_a_shape_alone_cuts_no_move(shape_is_output: bool) -> None:
    """There are several moves if the runtime needs the shape of what lies between them."""
    model = shuffled_model(shape_is_output=shape_is_output)
    result = compile_model(model, Options(deny_ops=()))
    layers = [layer for partition in result.partitions for layer in partition.layers]
    moves = [layer for layer in layers if layer.op in ("RESHAPE", "TRANSPOSE")]
    assert (len(moves) == 1) != shape_is_output
    ours = run(model, 1, strict="false", deny_ops="NONE", log_level="error")
    assert_same(ours, run(model, 1))


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_shapes_that_a_file_leaves_open_follow(batch: int, caplog) -> None:
    model = dense_model()
    ours = run(model, batch, strict="false", deny_ops="NONE", log_level="info")
    np.testing.assert_array_equal(ours[0], run(model, batch)[0])
    assert ours[0].shape == (batch, 6, 16)
    assert "14 of 14 nodes delegated in 1 partition" in caplog.text
    assert "run on the CPU" not in caplog.text


def test_an_open_shape_may_be_a_result_of_the_delegate() -> None:
    """The runtime makes room for what a kernel on the CPU reads."""
    model = dense_model()
    given = {"deny_ops": "FULLY_CONNECTED", "log_level": "error"}
    for batch in (1, 3):
        ours = run(model, batch, **given)
        np.testing.assert_array_equal(ours[0], run(model, batch)[0])


def test_a_shape_that_somebody_else_reads_stays_with_the_runtime() -> None:
    model = reshaped_model(shape_is_output=True)
    result = compile_model(model, Options())
    assert {n for c in result.partitions for n in c.partition.delegated} == {0, 5}
    assert {one.rule for one in result.rejections if one.op == "RESHAPE"} == {"readers_taken"}
    ours = run(model, 2, log_level="error")
    theirs = run(model, 2)
    assert_same(ours, theirs)


def test_what_is_denied_stays_with_the_runtime() -> None:
    options = Options.from_mapping({"deny_ops": "PACK"}, {})
    result = compile_model(reshaped_model(), options)
    rules = {r.op: r.rule for r in result.rejections}
    assert rules["PACK"] == "not_denied"
    assert rules["SHAPE"] == rules["STRIDED_SLICE"] == "readers_taken"


def test_compiled_ahead_of_time_nothing_of_it_is_left() -> None:
    result = compile_model(reshaped_model(), Options(numerics="exact"))
    assert [c.partition.computed for c in result.partitions] == [(1, 2, 3)]
    compiled = compile_ahead_of_time(reshaped_model(), Options(numerics="exact")).content
    assert len(read_graph(compiled).nodes) == 1
    ours = run(compiled, 1, log_level="error")
    np.testing.assert_array_equal(ours[0], run(reshaped_model(), 1)[0])


def arithmetic_model(seed: int) -> bytes:
    """Random arithmetic over the shape of a map; its results are outputs."""
    rng = np.random.default_rng(seed)
    builder = Net("arithmetic")
    shape = tuple(int(n) for n in rng.integers(1, 9, int(rng.integers(1, 5))))
    x = builder.input("x", shape, DType.INT8, SCALE)
    found = [builder.tensor("shape", (len(shape),), DType.INT32)]
    builder.operator("SHAPE", (x,), (found[0],), SHAPE_OPTIONS)

    def made(op: str, operands: tuple[int, ...], size: tuple[int, ...], options=None) -> None:
        result = builder.tensor(f"{op} {len(found)}", size, DType.INT32)
        builder.operator(op, operands, (result,), options)
        found.append(result)

    for _ in range(8):
        one = found[int(rng.integers(len(found)))]
        size = builder.spec(one).shape
        kind = rng.choice(("part", "item", "pack", "join", "sum", "product", "gather", "all"))
        if kind == "sum" or kind == "product":
            op, options = ("ADD", AddOptions()) if kind == "sum" else ("MUL", MulOptions())
            made(op, (one, number(builder, int(rng.integers(-3, 4)), scalar=True)), size, options)
        elif kind == "pack" and len(size) == 0:
            made("PACK", (one, one, one), (3,), PackOptions(3, 0))
        elif len(size) != 1 or size[0] == 0:
            continue
        elif kind == "item":
            at = int(rng.integers(-size[0], size[0]))
            ends = [number(builder, n) for n in (at, at + 1, 1)]
            made("STRIDED_SLICE", (one, *ends), (), FIRST)
        elif kind == "part":
            first, last = sorted(int(n) for n in rng.integers(0, size[0] + 1, 2))
            if first < last:
                ends = [number(builder, n) for n in (first, last, 1)]
                made("STRIDED_SLICE", (one, *ends), (last - first,), StridedSliceOptions())
        elif kind == "join" and size[0] < 20:
            made("CONCATENATION", (one, one), (2 * size[0],), ConcatenationOptions(0))
        elif kind == "gather":
            places = rng.integers(0, size[0], int(rng.integers(1, 5)))
            made("GATHER", (one, number(builder, *map(int, places))), places.shape, GatherOptions())
        elif kind == "all":
            made("REDUCE_PROD", (one, number(builder, 0)), (), ReducerOptions())
    return builder.build(*found)


@for_each("seed", range(60))
def test_arithmetic_is_the_runtimes(seed: int) -> None:
    model = arithmetic_model(seed)
    interpreter = interpreter_of(model)
    interpreter.invoke()
    graph = with_shape_constants(read_graph(model))
    for details in interpreter.get_output_details():
        constant = graph.tensor(details["index"]).constant
        if constant is None:  # only what would wrap is left
            assert np.abs(interpreter.get_tensor(details["index"]).astype(np.int64)).max() > 1 << 20
            continue
        np.testing.assert_array_equal(constant, interpreter.get_tensor(details["index"]))
    assert graph.folded


@for_each("seed", range(60))
def test_other_numbers_of_inputs_are_no_arithmetic(seed: int) -> None:
    """Damaged files have nodes with inputs too many or too few; they are constants or are not."""
    graph = read_graph(arithmetic_model(seed))
    for inputs in (lambda node: node.inputs * 2, lambda node: node.inputs[1:], lambda _: ()):
        nodes = tuple(replace(node, inputs=inputs(node)) for node in graph.nodes)
        with_shape_constants(replace(graph, nodes=nodes))
