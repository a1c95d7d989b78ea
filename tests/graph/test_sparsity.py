"""Sparse constants from dense arrays, against these, the runtime's DENSIFY, and corrupt ones."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from delegate.compile.cache import cache_key
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization, SparseLevel, Sparsity
from delegate.model.tensor_content import dense_values
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.sparse import Tree, encoded
from rk3588_conformance.execution import prepare, run_case
from rk3588_conformance.families import case_names
from rk3588_conformance.outcome import Status
from tests.inferences import assert_same, drawn_int8, outputs

SPARSE = list(case_names(None, "Sparse."))
OPTIONS = Options.from_mapping({"numerics": "exact", "device": "simulator", "float": "fp16"}, {})


def sparse(seed: int, shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 100, shape) * rng.choice([-1, 1], shape)
    return (values * (rng.random(shape) < 0.3)).astype(dtype)


def cases() -> Iterator[tuple[np.ndarray, tuple[int, ...], tuple[bool, ...], dict[int, int], type]]:
    seed = 0
    kinds = (np.int32, np.uint16, np.uint8)
    for shape, blocks in (
        ((5, 7), {}),
        ((8, 6), {0: 4}),
        ((8, 6), {1: 2}),
        ((6, 8), {0: 3, 1: 4}),
        ((4, 1, 3, 5), {}),
        ((4, 2, 3, 6), {3: 3}),
        ((1, 3), {}),
    ):
        rank = len(shape)
        for front in permutations(range(rank)):
            for back in permutations(range(rank, rank + len(blocks))):
                seed += 1
                rng = np.random.default_rng(seed)
                flags = tuple(bool(b) for b in rng.integers(0, 2, rank)) + (False,) * len(blocks)
                element = (np.float32, np.float16, np.int8)[seed % 3]
                yield sparse(seed, shape, element), front + back, flags, blocks, kinds[seed % 3]


CASES = list(cases())


def test_dense_arrays_come_back() -> None:
    for dense, *how in CASES:
        values, sparsity = encoded(dense, Tree(*how))
        found = dense_values(values.view(np.uint8), dense.dtype, dense.shape, sparsity)
        assert found.dtype == dense.dtype
        assert (found == dense).all(), how
        assert not found.flags.writeable


def densify_model(dense: np.ndarray, values: np.ndarray, sparsity: Sparsity) -> bytes:
    """DENSIFY, and what adds its result to an input: the runtime refuses a graph without one."""
    builder = Net("densify")
    kind = {np.float32: DType.FLOAT32, np.float16: DType.FLOAT16}[dense.dtype.type]
    w = builder.constant(
        "w", values, dtype=kind, shape=dense.shape, is_sparse=True, sparsity=sparsity
    )
    made = builder.tensor("made", dense.shape, kind)
    builder.operator("DENSIFY", (w,), (made,))
    if kind is DType.FLOAT16:
        half, made = made, builder.tensor("real", dense.shape, DType.FLOAT32)
        builder.operator("DEQUANTIZE", (half,), (made,))
    x = builder.input("x", dense.shape, DType.FLOAT32)
    y = builder.tensor("y", dense.shape, DType.FLOAT32)
    builder.operator("ADD", (x, made), (y,), AddOptions())
    return builder.build(y)


def test_the_runtime_reads_the_same() -> None:
    for given_dense, *how in CASES[::3]:
        is_int8 = given_dense.dtype == np.int8
        dense = given_dense.astype(np.float32) if is_int8 else given_dense
        model = densify_model(dense, *encoded(dense, Tree(*how)))
        (result,) = outputs(model, np.zeros(dense.shape, np.float32))
        assert (result == dense).all(), how


def conv_model(dense: np.ndarray, values: np.ndarray, sparsity: Sparsity) -> bytes:
    """A convolution with ``dense`` behind DENSIFY."""
    builder = Net("sparse weights")
    x = builder.input("x", (1, 5, 6, dense.shape[3]), DType.FLOAT32)
    kind = {np.float32: DType.FLOAT32, np.float16: DType.FLOAT16, np.int8: DType.INT8}
    quantization = Quantization((0.25,), (0,)) if dense.dtype == np.int8 else None
    given = kind[dense.dtype.type]
    w = builder.constant(
        "w", values, quantization, dtype=given, shape=dense.shape, is_sparse=True, sparsity=sparsity
    )
    made = builder.result("DENSIFY", (w,), "made", dense.shape, quantization, dtype=given)
    if given is DType.FLOAT16:
        half, made = made, builder.tensor("real", dense.shape, DType.FLOAT32)
        builder.operator("DEQUANTIZE", (half,), (made,))
    b = builder.constant("b", np.zeros(dense.shape[0], np.float32))
    y = builder.tensor("y", (1, 5, 6, dense.shape[0]), DType.FLOAT32)
    builder.operator("CONV_2D", (x, made, b), (y,), ConvOptions())
    return builder.build(y)


def some_weights(dtype: type) -> tuple[np.ndarray, np.ndarray, Sparsity]:
    dense = sparse(77, (24, 1, 3, 8), dtype)
    how = ((3, 0, 1, 2, 4), (True, False, False, True, False), {3: 4}, np.int32)
    return dense, *encoded(dense, Tree(*how))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_convolutions_behind_it_are_delegated(dtype: type) -> None:
    dense, values, sparsity = some_weights(dtype)
    model = conv_model(dense, values, sparsity)
    x = np.random.default_rng(0).integers(-8, 9, (1, 5, 6, 8)).astype(np.float32) / 8
    (ours,), (theirs,) = outputs(model, x, device="simulator", float="fp16"), outputs(model, x)
    # All products and sums are exact, results are rounded once.
    assert (ours == theirs.astype(np.float16)).all()
    made = compile_model(model, OPTIONS)
    assert len(made.partitions) == 1
    assert not made.rejections


def test_int8_weights_of_float_features_are_delegated() -> None:
    made = compile_model(conv_model(*some_weights(np.int8)), OPTIONS)
    assert len(made.partitions) == 1
    assert not made.rejections


@pytest.mark.parametrize("name", SPARSE[::29])
def test_int8_layers_of_sparse_weights_are_as_the_kernels_say(name: str) -> None:
    outcome = run_case(
        name, None, Options.from_mapping({"numerics": "exact", "device": "simulator"}, {})
    )
    assert (outcome.status, outcome.message) == (Status.OK, "")
    assert outcome.delegated_nodes == outcome.total_nodes == 2


@pytest.mark.parametrize("wanted", ["off", "auto", "fp16"])
def test_integers_are_constants_of_programs_whatever_floats_are(wanted: str) -> None:
    options = Options.from_mapping(
        {"numerics": "exact", "device": "simulator", "float": wanted}, {}
    )
    made = compile_model(prepare(SPARSE[0], None).graph, options)
    assert [len(one.partition.inputs) for one in made.partitions] == [1]
    assert not made.rejections
    floats = compile_model(conv_model(*some_weights(np.float32)), options)
    assert len(floats.partitions) == len(floats.graph.folded) == (wanted == "fp16")


@pytest.mark.parametrize("wanted", ["off", "auto", "fp16"])
def test_weights_of_a_later_partition_are_constants_too(wanted: str) -> None:
    """The runtime puts DENSIFY into the partition before the node of the CPU."""
    dense, values, sparsity = some_weights(np.int8)
    builder, scale = Net("two partitions"), Quantization((0.05,), (3,))
    y = builder.input("x", (1, 5, 6, 8), DType.INT8, scale)
    for op in ("RELU", "RELU6"):
        y = builder.function(op, (y,), scale)
    per_weight = Quantization((0.01,), (0,))
    w = builder.constant(
        "w", values, per_weight,
        dtype=DType.INT8, shape=dense.shape, is_sparse=True, sparsity=sparsity,
    )  # fmt: skip
    made = builder.result("DENSIFY", (w,), "made", dense.shape, per_weight, dtype=DType.INT8)
    b = builder.constant("b", np.zeros(24, np.int32), Quantization((0.0005,), (0,)))
    result = builder.tensor("y", (1, 5, 6, 24), DType.INT8, scale)
    builder.operator("CONV_2D", (y, made, b), (result,), ConvOptions())
    model, x = builder.build(result), drawn_int8((1, 5, 6, 8), 5)
    ours = outputs(model, x, device="simulator", numerics="exact", float=wanted, deny_ops="RELU6")
    assert_same(ours, outputs(model, x))


def corrupted(sparsity: Sparsity) -> Iterator[Sparsity]:
    """Yield damaged variants of ``some_weights``, whose levels 0 and 3 are compressed."""
    levels = sparsity.levels

    def with_level(index: int, **changes: object) -> Sparsity:
        changed = replace(levels[index], **changes)
        return replace(sparsity, levels=(*levels[:index], changed, *levels[index + 1 :]))

    for index in (0, 3):
        level = levels[index]
        for which in ("segments", "indices"):
            array = getattr(level, which)
            for wild in (-1, 1 << 30, -(1 << 31), (1 << 31) - 1):
                for place in (0, array.size // 2, array.size - 1):
                    changed = array.copy()
                    changed[place] = wild
                    yield with_level(index, **{which: changed})
            yield with_level(index, **{which: array[:-1]})
            yield with_level(index, **{which: array[:0]})
            yield with_level(index, **{which: np.concatenate([array, array[-1:]])})
        # The first segment of two entries: the other way round, and one of them twice.
        first = int(level.segments[int(np.argmax(np.diff(level.segments) > 1))])
        for wild in ([1, 0], [0, 0]):
            changed = level.indices.copy()
            changed[first : first + 2] = changed[first : first + 2][wild]
            yield with_level(index, indices=changed)
    for size in (0, -1, 23, 25, 1 << 30, -(1 << 31)):
        yield with_level(1, size=size)
        yield with_level(4, size=size)
    yield with_level(0, is_compressed=False)
    yield with_level(4, is_compressed=True)
    for order in ((), (3, 0, 1, 2), (3, 0, 1, 2, 5), (3, 0, 1, 4, 2), (3, 3, 1, 2, 4), (0,) * 5):
        yield replace(sparsity, traversal_order=order)
    yield replace(sparsity, traversal_order=(3, 0, 1, 2, -1))
    for block_map in ((), (4,), (-1,), (3, 3), (2,)):
        yield replace(sparsity, block_map=block_map)
    yield replace(sparsity, levels=levels[:-1])
    yield replace(sparsity, levels=())


def test_what_is_corrupt_stays_on_the_cpu() -> None:
    dense, values, sparsity = some_weights(np.float32)
    raw = values.view(np.uint8)
    wrong = list(corrupted(sparsity))
    for one in wrong:
        with pytest.raises(ValueError, match=r"\w"):
            dense_values(raw, dense.dtype, dense.shape, one)
    for content in (raw[:-4], raw[:-1], raw[:0], np.concatenate([raw, raw[:4]])):
        with pytest.raises(ValueError, match=r"\w"):
            dense_values(content, dense.dtype, dense.shape, sparsity)
    for shape in ((0, 1, 3, 8), (24, 1, 3), (), (24, 1, 3, 1 << 40), (-24, 1, 3, 8)):
        with pytest.raises(ValueError, match=r"\w"):
            dense_values(raw, dense.dtype, shape, sparsity)
    for one in wrong[::9]:
        made = compile_model(conv_model(dense, values, one), OPTIONS)
        assert made.partitions == ()
        (rejection,) = (r for r in made.rejections if r.op == "DENSIFY")
        assert "is corrupt" in rejection.detail


def test_a_small_file_makes_no_large_arrays() -> None:
    """Dense levels of many positions, for which it holds neither values nor segments."""
    side = 1 << 14
    level, nothing = SparseLevel(side), np.zeros(0, np.uint8)
    some = SparseLevel(0, True, np.array([0, 1], np.int32), np.array([0], np.int32))
    wrong = (
        ((side, side), Sparsity((0, 1), (), (level, level))),
        ((1, side, side), Sparsity((0, 1, 2), (), (some, level, level))),
        ((4, side, 8), Sparsity((0, 1, 2), (), (SparseLevel(4), level, some))),
        ((side, side), Sparsity((0, 1, 2), (0,), (SparseLevel(1), level, level))),
    )
    tracemalloc.start()
    for shape, sparsity in wrong:
        with pytest.raises(ValueError, match="entries"):
            dense_values(nothing, np.dtype(np.float32), shape, sparsity)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_orders_of_blocks_that_the_runtime_reads_otherwise_are_refused() -> None:
    """It takes a block's size from the level whose number the order has at the block's place: the
    same one, unless three blocks and more take turns.
    """
    dense = sparse(5, (2, 4, 6))
    for back, is_read in (((3, 4, 5), True), ((5, 4, 3), True), ((4, 5, 3), False)):
        blocks = {0: 2, 1: 2, 2: 3}
        values, tree = encoded(dense, Tree((0, 1, 2, *back), (False,) * 6, blocks))
        if is_read:
            found = dense_values(values.view(np.uint8), dense.dtype, dense.shape, tree)
            assert (found == dense).all()
            continue
        with pytest.raises(ValueError, match="of blocks"):
            dense_values(values.view(np.uint8), dense.dtype, dense.shape, tree)


def test_weights_in_the_buffer_of_a_dense_tensor_are_left_alone() -> None:
    """A host that sets it changes what the kernel reads, which keeps its first values."""
    graph = read_graph(conv_model(*some_weights(np.float32)))
    assert len(compile_model(graph, OPTIONS).graph.folded) == 1
    sparse_one = next(tensor for tensor in graph.tensors if tensor.is_sparse)
    other = replace(sparse_one, index=len(graph.tensors), sparsity=None, is_sparse=False)
    shared = replace(graph, tensors=(*graph.tensors, other), inputs=(*graph.inputs, other.index))
    made = compile_model(shared, OPTIONS)
    assert made.partitions == ()
    (rejection,) = (r for r in made.rejections if r.op == "DENSIFY")
    assert "may be written" in rejection.detail


def test_a_densify_to_another_type_is_left_alone() -> None:
    dense, values, sparsity = some_weights(np.float16)
    model = read_graph(densify_model(dense, values, sparsity))
    (node,) = (node for node in model.nodes if node.op == "DENSIFY")
    made = replace(model.tensor(node.outputs[0]), dtype=DType.FLOAT32)
    tensors = tuple(made if t.index == made.index else t for t in model.tensors)
    (found,) = (
        r for r in compile_model(replace(model, tensors=tensors), OPTIONS).rejections
        if r.op == "DENSIFY"
    )  # fmt: skip
    assert "no sparse constant of a known kind" in found.detail


def test_the_cache_tells_other_places_from_these() -> None:
    dense, values, sparsity = some_weights(np.float32)
    other = np.roll(dense, 1, axis=2)
    how = ((3, 0, 1, 2, 4), (True, False, False, True, False), {3: 4}, np.int32)
    moved, places = encoded(other, Tree(*how))
    assert sorted(moved) == sorted(values)
    models = (conv_model(dense, values, sparsity), conv_model(dense, values, places))
    if len(moved) == len(values):
        keys = {cache_key(read_graph(model), OPTIONS) for model in models}
        assert len(keys) == 2
