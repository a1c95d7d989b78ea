"""Tests masks that are computed from constants alone, as windows that are shifted need: what the
reference kernels give, and a constant operand of the node that adds one.
"""

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Graph, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.ops.shared import constant_results
from delegate.ops.sub import SubOptions
from delegate.options import Options
from delegate.partition.half import as_computed
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.options import BuiltinOptions
from tests.inferences import interpreter_of, outputs
from tests.loops import for_each

SELECT, SELECT_V2, PAD = (BuiltinOptions(kind, {}) for kind in (47, 98, 22))
PADV2 = BuiltinOptions(43, {})
EQUAL, NOT_EQUAL = BuiltinOptions(53, {}), BuiltinOptions(54, {})


def folded(model: bytes, **options: str) -> Graph:
    return as_computed(read_graph(model), Options.from_mapping(options, {}))


def random_masks(seed: int) -> tuple[bytes, list[int]]:
    """A model of masks of constants, each of which reads the ones before it; their tensors."""
    builder, rng = Net("masks"), np.random.default_rng(seed)
    builder.input("x", (1, 4), DType.INT8, Quantization((0.05,), (3,)))
    scales = rng.choice([0.9, 0.3, 1 / 256, 0.004, 0.0039], 2)
    first, second = (
        Quantization((float(np.float32(s)),), (int(rng.integers(-128, 128)),)) for s in scales
    )
    shape = tuple(rng.integers(1, 6, rng.integers(1, 4)))
    narrow = tuple(np.where(rng.integers(0, 2, len(shape)), 1, shape))
    a = builder.constant("a", rng.integers(-128, 128, shape).astype(np.int8), first)
    b = builder.constant("b", rng.integers(-128, 128, narrow).astype(np.int8), first)
    c = builder.constant("c", rng.integers(-128, 128, narrow).astype(np.int8), second)
    made = []
    for op, other, options in (("EQUAL", b, EQUAL), ("NOT_EQUAL", c, NOT_EQUAL)):
        is_same = builder.tensor(op, shape, DType.BOOL)
        builder.operator(op, (a, other), (is_same,), options)
        chosen = builder.tensor(f"chosen by {op}", shape, DType.INT8, first)
        builder.operator("SELECT_V2", (is_same, b, a), (chosen,), SELECT_V2)
        last = builder.tensor(f"chosen again by {op}", shape, DType.INT8, first)
        builder.operator("SELECT", (is_same, a, chosen), (last,), SELECT)
        sides = rng.integers(0, 3, (len(shape), 2)).astype(np.int32)
        wide = builder.tensor(f"wide {op}", tuple(shape + sides.sum(axis=1)), DType.INT8, first)
        sizes = builder.constant(f"sides of {op}", sides)
        builder.operator("PAD", (last, sizes), (wide,), PAD)
        made += [is_same, chosen, last, wide]
    return builder.build(*made), made


@for_each("seed", range(60))
def test_masks_are_the_runtimes(seed: int) -> None:
    model, made = random_masks(seed)
    interpreter = interpreter_of(model)
    interpreter.invoke()
    graph = folded(model)
    for index in made:
        constant = graph.tensor(index).constant
        assert constant is not None, graph.tensor(index).name
        np.testing.assert_array_equal(constant, interpreter.get_tensor(index))
        assert not constant.flags.writeable


@for_each("seed", range(40))
def test_masks_of_float32_are_the_runtimes(seed: int) -> None:
    """A graph that is computed in fp16 has its float32 constants folded."""
    builder, rng = Net("masks"), np.random.default_rng(seed)
    builder.input("x", (1, 4), DType.FLOAT32)
    shape = tuple(rng.integers(1, 6, rng.integers(1, 4)))
    narrow = tuple(np.where(rng.integers(0, 2, len(shape)), 1, shape))
    few = np.array([-100.0, -0.0, 0.0, 1.5, np.float32(1e-42), np.inf], np.float32)
    a, b = (builder.constant(f"{s}", rng.choice(few, s)) for s in (shape, narrow))
    made: list[int] = []

    def put(op: str, inputs: tuple[int, ...], size, kind=DType.FLOAT32, options=None) -> int:
        made.append(builder.tensor(f"{op} {len(made)}", size, kind))
        builder.operator(op, inputs, made[-1:], options)
        return made[-1]

    less = put("SUB", (a, b), shape, options=SubOptions())
    for op, options in (("EQUAL", EQUAL), ("NOT_EQUAL", NOT_EQUAL)):
        same = put(op, (less, b), shape, DType.BOOL, options)
        chosen = put("SELECT_V2", (same, b, less), shape, options=SELECT_V2)
        sides = rng.integers(0, 3, (len(shape), 2)).astype(np.int32)
        wide = tuple(shape + sides.sum(axis=1))
        sizes = builder.constant(f"sides of {op}", sides)
        put("PAD", (chosen, sizes), wide, options=PAD)
        number = np.array(rng.choice((0.25, -7.5, -3.0)), np.float32)
        edge = builder.constant(f"edge of {op}", number)
        put("PADV2", (chosen, sizes, edge), wide, options=PADV2)
    interpreter = interpreter_of(model := builder.build(*made))
    interpreter.invoke()
    graph = folded(model, float="fp16")
    for index in made:
        constant = graph.tensor(index).constant
        assert constant is not None or "PADV2" in graph.tensor(index).name
        if constant is not None:
            np.testing.assert_array_equal(constant, interpreter.get_tensor(index))


def test_a_scale_at_which_the_kernels_abort_is_left_to_them() -> None:
    builder = Net("coarse")
    builder.input("x", (1, 4), DType.INT8, Quantization((0.05,), (3,)))
    coarse = Quantization((1.0,), (0,))
    a, b = (builder.constant(name, np.zeros((2, 3), np.int8), coarse) for name in "ab")
    same = builder.tensor("same", (2, 3), DType.BOOL)
    builder.operator("EQUAL", (a, b), (same,), EQUAL)
    assert folded(builder.build(same)).tensor(same).constant is None


def test_a_condition_for_rows_is_left_to_the_runtime() -> None:
    """SELECT takes a vector for rows; NumPy would take it for columns."""
    builder = Net("rows")
    scale = Quantization((0.05,), (3,))
    builder.input("x", (1, 4), DType.INT8, scale)
    rows = builder.constant("rows", np.array([True, False, True]))
    a, b = (builder.constant(f"{n}", np.full((3, 3), n, np.int8), scale) for n in (1, 2))
    chosen = builder.tensor("chosen", (3, 3), DType.INT8, scale)
    builder.operator("SELECT", (rows, a, b), (chosen,), SELECT)
    assert folded(builder.build(chosen)).tensor(chosen).constant is None


def test_small_files_make_no_large_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_results, "_MOST_VALUES", 11)
    builder = Net("large")
    scale = Quantization((0.05,), (3,))
    builder.input("x", (1, 4), DType.INT8, scale)
    row = builder.constant("row", np.arange(4, dtype=np.int8).reshape(1, 4), scale)
    column = builder.constant("column", np.arange(3, dtype=np.int8).reshape(3, 1), scale)
    both = builder.tensor("both", (3, 4), DType.INT8, scale)
    builder.operator("SUB", (row, column), (both,), SubOptions())
    wide = builder.tensor("wide", (3, 4), DType.INT8, scale)
    builder.operator("PAD", (row, builder.constant("s", np.array([[1, 1], [0, 0]], np.int32))),
                     (wide,), PAD)  # fmt: skip
    graph = folded(builder.build(both, wide))
    assert graph.tensor(both).constant is graph.tensor(wide).constant is None


def masked_model(shape: tuple[int, ...], mask: tuple[int, ...], seed: int) -> bytes:
    builder, rng = Net("masked"), np.random.default_rng(seed)
    scale, far = Quantization((0.05,), (3,)), Quantization((0.39,), (127,))
    x = builder.input("x", shape, DType.INT8, scale)
    y = builder.function("RELU", (x,), scale)
    values = rng.choice(np.array([-128, 127, 100], np.int8), mask)
    operands = y, builder.constant("mask", values, far)
    order = operands if seed % 2 else operands[::-1]
    z = builder.tensor("z", shape, DType.INT8, Quantization((0.2,), (90,)))
    builder.operator("ADD", order, (z,), AddOptions())
    return builder.build(z)


SHAPES = [
    ((1, 4, 3, 7, 7), (1, 4, 1, 7, 7)),
    ((1, 4, 3, 7, 7), (1, 1, 3, 1, 7)),
    ((2, 3, 4, 5, 6), (3, 1, 5, 1)),
    ((2, 2, 3, 4, 5, 3), (2, 1, 4, 1, 3)),
    ((2, 3, 4, 5, 6), (4, 1, 6)),
]


@pytest.mark.parametrize(("shape", "mask"), SHAPES, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_masks_of_several_heads_are_added(shape, mask, seed: int) -> None:
    """A mask repeated along one of the dimensions that are columns to the device."""
    model = masked_model(shape, mask, seed)
    result = compile_model(model, Options(numerics="exact", deny_ops=()))
    assert not result.rejections
    x = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
    (ours,) = outputs(model, x, device="simulator", deny_ops="NONE", log_level="error")
    (theirs,) = outputs(model, x)
    difference = np.abs(ours.astype(int) - theirs)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.05
