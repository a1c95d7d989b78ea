"""Matrices that the host packs as weights: every number in its place, and products as those of the
reference kernels.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate._native import Executable
from delegate.chip.chips import DEFAULT
from delegate.chip.element import Element, align
from delegate.cli import main
from delegate.compile.aot.rewrite import compile_ahead_of_time
from delegate.compile.compiler import compile_model
from delegate.lower.lowered import Spread, TensorBinding
from delegate.lower.memory.tensors import View
from delegate.lower.packed_weights import PackedMatrices
from delegate.lower.task import BufferId, Ref
from delegate.lower.weights import pack_dense, pack_dense_half, stored_lanes
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.npu.program_reader import parse
from delegate.npu.tensor_layout import device_values, store
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.products import covering
from tests.inferences import assert_same, drawn_int8, outputs

POINT = -5
AUTO = {"numerics": "auto", "deny_ops": "NONE"}
ON_NPU = {"device": "simulator", **AUTO}


@settings(deadline=None)
@given(kernels=st.integers(1, 70), inputs=st.integers(1, 100), has_columns=st.booleans())
def test_boxes_of_fp16_are_the_packed_weights(
    kernels: int, inputs: int, *, has_columns: bool
) -> None:
    """Against ``pack_dense_half``, lanes and kernels beyond the matrix being 0."""
    rng = np.random.default_rng(kernels * 101 + inputs)
    numbers = rng.normal(size=(kernels, inputs)).astype(np.float16)
    host = np.ascontiguousarray(numbers.T if has_columns else numbers).astype(np.float32)
    stored = align(kernels, 8)
    wanted = pack_dense_half(numbers[:, None, None], stored, DEFAULT.groups)
    lanes = stored_lanes(align(inputs, 8), 32)
    packed = PackedMatrices(1, kernels, inputs, has_columns, stored, 16, lanes, 32, 8, 1)
    whole = TensorBinding(
        *(0, "matrices", host.shape, Element.FP32, 1, 1, 1, 1, 1, 16, 16),
        location=Ref(BufferId.INPUT, 0),
    )
    memory = np.zeros(packed.place(1), np.uint8)
    boxes = list(packed.boxes(whole, View(1, 1, *host.shape), None))
    assert len(boxes) == packed.box_count
    for box in boxes:
        store(box, device_values(box, host), memory)
    assert packed.matrix_bytes == len(wanted)
    assert memory[: len(wanted)].tobytes() == wanted


@settings(deadline=None)
@given(
    kernels=st.integers(1, 100),
    inputs=st.integers(1, 100),
    matrices=st.integers(1, 3),
    taps=st.integers(1, 3),
    is_turned=st.booleans(),
    has_columns=st.booleans(),
)
def test_boxes_are_the_packed_weights(
    kernels: int, inputs: int, matrices: int, taps: int, *, is_turned: bool, has_columns: bool
) -> None:
    """Against ``pack_dense``. ``is_turned``: the host has rows and columns the other way round."""
    rng = np.random.default_rng(kernels * 101 + inputs)
    numbers = rng.integers(-128, 128, (matrices, kernels, inputs)).astype(np.int8)
    given = numbers.swapaxes(1, 2) if has_columns else numbers
    view = View(1, *given.shape)
    host, spread = np.ascontiguousarray(given), None
    if is_turned:
        host = np.ascontiguousarray(given.swapaxes(1, 2))
        spread = Spread(0, 0, kernels * inputs, 1, given.shape[1])
    packed = PackedMatrices(
        *(matrices, kernels, inputs, has_columns, kernels + kernels % 2, 32),
        *(align(inputs, 16), 32, 16, taps),
    )
    whole = TensorBinding(
        *(0, "matrices", host.shape, Element.INT8, 1, 1, 1, 1, 1, 16, 16),
        location=Ref(BufferId.INPUT, 64),
        fill=POINT,
    )
    memory = np.zeros(64 + packed.place(matrices), np.uint8)
    boxes = list(packed.boxes(whole, view, spread))
    assert len(boxes) == packed.box_count
    for box in boxes:
        store(box, device_values(box, host), memory)
    for matrix, values in enumerate(numbers):
        weights = np.repeat(values[:, None, None], taps, axis=2)
        wanted = np.frombuffer(pack_dense(weights, POINT, DEFAULT.groups), np.int8).copy()
        start = 64 + packed.place(matrix)
        found = memory[start : start + len(wanted)].view(np.int8)
        if kernels % 2:  # nobody needs the kernel that completes the last pair
            picks = np.arange(2 * kernels + 2).reshape(-1, 2)[:-1].ravel()[:kernels]
            marked = np.zeros((kernels + 1, 1, taps, inputs), np.int8)
            marked[picks[picks < kernels]] = 1
            keeps = np.frombuffer(pack_dense(marked, 0, DEFAULT.groups), np.int8) == 1
            found, wanted = found[keeps], wanted[keeps]
        np.testing.assert_array_equal(found, wanted)
        assert packed.matrix_bytes == len(pack_dense(weights, POINT, DEFAULT.groups))


def attention(rows: int, width: int, *, points: tuple[int, int, int]) -> bytes:
    """Queries, keys and values that tables give, in two heads; scores, and what these select."""
    builder = Net("attention")
    shape = (1, 2, rows, width)
    made = []
    for name, point in zip("qkv", points, strict=True):
        numbers = Quantization((0.05,), (point,))
        x = builder.input(name, shape, DType.INT8, numbers)
        made.append(builder.function("TANH", (x,), Quantization((1 / 128,), (0,))))
    q, k, v = made
    numbers = builder.spec(q).quantization
    assert numbers is not None
    scores = builder.computed_product(q, k, covering(width, numbers, numbers), adj_y=True)
    shares = builder.function("LOGISTIC", (scores,), Quantization((1 / 256,), (-128,)))
    between = builder.spec(shares).quantization
    assert between is not None
    product = builder.computed_product(shares, v, covering(rows, between, numbers))
    return builder.build(builder.reshape(product, (1, 2 * rows, width)))


@pytest.mark.parametrize(("rows", "width"), [(5, 16), (19, 33), (49, 40), (33, 64), (197, 17)])
def test_products_run_behind_what_computes_their_weights(rows: int, width: int) -> None:
    """Scores are in the part behind the one that gives keys, and so is what values are for."""
    model = attention(rows, width, points=(0, 5, -9))
    graph = read_graph(model)
    result = compile_model(model, Options.from_mapping(AUTO, {}))
    assert not result.rejections
    first, behind = (compiled.partition for compiled in result.partitions)
    made = {t for index in first.nodes for t in graph.node(index).outputs}
    products = [node for node in graph.nodes if node.op == "BATCH_MATMUL"]
    assert {node.index for node in products} < set(behind.nodes)
    assert {node.inputs[1] for node in products} <= made & set(behind.inputs)
    for compiled in result.partitions:
        assert not any("computed-weights" in t.form for t in parse(compiled.program).tasks)
    rng = np.random.default_rng(rows)
    given = [rng.integers(-128, 128, graph.tensor(t).shape).astype(np.int8) for t in graph.inputs]
    ours, theirs = outputs(model, *given, **ON_NPU), outputs(model, *given)
    for found, wanted in zip(ours, theirs, strict=True):
        assert np.abs(found.astype(int) - wanted).max() <= 1
        assert len(np.unique(wanted)) > 20


def test_layers_of_attention_are_parts_one_behind_the_other(tmp_path: Path) -> None:
    """Three of them, whose keys and values come from the one before, and a node on the CPU behind
    the first part; from the compiler, from the cache and ahead of time.
    """
    builder, rows, width = Net("layers"), 17, 24
    numbers = Quantization((1 / 128,), (0,))
    x = builder.input("x", (1, rows, width), DType.INT8, Quantization((0.05,), (-3,)))
    x = first = builder.function("TANH", (x,), numbers)
    for _ in range(3):
        keys, values = (builder.function("TANH", (x,), numbers) for _ in "kv")
        scores = builder.computed_product(x, keys, covering(width, numbers, numbers), adj_y=True)
        shares = builder.function("LOGISTIC", (scores,), Quantization((1 / 256,), (-128,)))
        between = builder.spec(shares).quantization
        assert between is not None
        x = builder.computed_product(shares, values, covering(rows, between, numbers))
        x = builder.function("TANH", (x,), numbers)
    kept = builder.function("ABS", (first,), numbers)
    model = builder.build(x, kept)
    chosen = {**AUTO, "deny_ops": "ABS,NONE"}
    result = compile_model(model, Options.from_mapping(chosen, {}))
    assert len(result.partitions) == 4
    assert [rejection.op for rejection in result.rejections] == ["ABS"]
    given = np.random.default_rng(9).integers(-128, 128, (1, rows, width)).astype(np.int8)
    theirs = outputs(model, given)
    compiled = compile_ahead_of_time(model, Options.from_mapping(chosen, {})).content
    cached = {**ON_NPU, **chosen, "cache_dir": str(tmp_path)}
    runs = [outputs(model, given, **cached), outputs(model, given, **cached)]
    runs.append(outputs(compiled, given, **ON_NPU))
    assert len(list(tmp_path.iterdir())) == 1
    for ours in runs:
        assert_same(ours, runs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
        # A step of each operator may grow in the next.
        assert np.abs(ours[0].astype(int) - theirs[0]).max() <= 4
    twice = np.concatenate([given, given[:, ::-1]])
    ours, theirs = outputs(model, twice, **ON_NPU), outputs(model, twice)
    assert np.abs(ours[0].astype(int) - theirs[0]).max() <= 4


@pytest.mark.parametrize("zero", [-128, -127, 0, 1, 127])
def test_every_zero_point_of_the_first_operand(zero: int) -> None:
    """At the ends of int8 on both sides: 128 takes two taps on padding."""
    builder = Net("points")
    first, second = Quantization((0.5,), (zero,)), Quantization((0.5,), (POINT,))
    x = builder.input("x", (7, 45), DType.INT8, first)
    y = builder.input("y", (45, 35), DType.INT8, second)
    model = builder.build(builder.computed_product(x, y, covering(45, first, second)))
    rng = np.random.default_rng(zero & 0xFF)
    ends = np.array([-128, 127], np.int8)
    for values in (ends[:1], ends[1:], ends, np.arange(-128, 128).astype(np.int8)):
        given = [rng.choice(values, shape).astype(np.int8) for shape in ((7, 45), (45, 35))]
        (ours,), (theirs,) = outputs(model, *given, **ON_NPU), outputs(model, *given)
        assert np.abs(ours.astype(int) - theirs).max() <= 1


def test_a_matrix_that_is_also_a_feature_map_is_not_packed() -> None:
    builder = Net("squares")
    numbers = Quantization((0.5,), (3,))
    x = builder.input("x", (4, 17), DType.INT8, numbers)
    output = covering(17, numbers, numbers)
    model = builder.build(builder.computed_product(x, x, output, adj_y=True))
    (rejection,) = compile_model(model, Options.from_mapping(AUTO, {})).rejections
    assert rejection.rule == "form_is_known"
    assert "as features" in rejection.detail


def test_packed_products_are_dumped_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "attention.tflite"
    path.write_bytes(attention(9, 40, points=(1, 2, 3)))
    chosen = ["-O", "numerics=auto", "-O", "deny_ops=NONE"]
    made = str(tmp_path / "compiled.tflite")
    assert main(["compile", str(path), "-o", made, "--dump", str(tmp_path / "dump"), *chosen]) == 0
    captures = sorted((tmp_path / "dump").glob("partition_*.npz"))
    assert len(captures) == 2
    assert main(["replay", *map(str, captures), "--device", "simulator"]) == 0


def test_more_boxes_than_a_program_may_have_are_refused() -> None:
    """Either product alone has fewer: the larger one is left to the CPU."""
    builder, one = Net("many"), Quantization((1.0,), (POINT,))
    made = []
    for heads in (800, 700):
        x = builder.input("x", (heads, 1, 40), DType.INT8, one)
        y = builder.input("y", (heads, 3, 40), DType.INT8, one)
        made.append(builder.computed_product(x, y, covering(40, one, one), adj_y=True))
    model = builder.build(*made)
    graph = read_graph(model)
    (rejection,) = compile_model(graph, Options.from_mapping(AUTO, {})).rejections
    assert (rejection.node, rejection.rule) == (0, "buffers_in_range")
    assert "6002 boxes" in rejection.detail
    given = [drawn_int8(graph.tensor(t).shape, t) for t in graph.inputs]
    for ours, theirs in zip(outputs(model, *given, **ON_NPU), outputs(model, *given), strict=True):
        assert np.abs(ours.astype(int) - theirs).max() <= 1


def test_packed_products_run_ahead_of_time() -> None:
    """An operator has each tensor once, whatever boxes it has; bytes are the same twice."""
    model = attention(9, 20, points=(1, 2, 3))
    options = Options.from_mapping(AUTO, {})
    compiled = compile_ahead_of_time(model, options).content
    assert compiled == compile_ahead_of_time(model, options).content
    graph = read_graph(model)
    rng = np.random.default_rng(4)
    given = [rng.integers(-128, 128, graph.tensor(t).shape).astype(np.int8) for t in graph.inputs]
    assert_same(outputs(compiled, *given, **ON_NPU), outputs(model, *given, **ON_NPU))


def test_the_native_conversion_writes_the_same_bytes() -> None:
    """One program, whose inputs its executable packs: products of whole numbers are exact."""
    builder = Net("whole")
    one = Quantization((1.0,), (0,))
    x = builder.input("x", (3, 40), DType.INT8, one)
    y = builder.input("y", (70, 40), DType.INT8, one)
    model = builder.build(builder.computed_product(x, y, Quantization((1.0,), (0,)), adj_y=True))
    (compiled,) = compile_model(model, Options.from_mapping(AUTO, {})).partitions
    matrix = np.random.default_rng(1).integers(-128, 128, (70, 40)).astype(np.int8)
    executable = Executable(compiled.program, "simulator")
    for places in ((0, 15, 16), (31, 32, 39)):
        picking = np.eye(40, dtype=np.int8)[list(places)]
        (found,) = executable.run([picking, matrix])
        np.testing.assert_array_equal(found, matrix[:, places].T)
