"""Moves at a partition's edges by the host's conversion: each element in place, no task."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.compile.compiler import CompileResult
from delegate.lower.lowered import Spread
from delegate.model.graph import Activation, DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.npu.program import parse
from delegate.ops import OPERATORS
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.shared.maps import transposed, window
from delegate.partition.host_boxes import boxes_of
from delegate.partition.partitioner import select_nodes
from tests.index_maps import NOWHERE, numbers
from tests.lower.reference import random_inputs
from tests.lower.test_aliases import SAME, TYPES, VIEW_OPS, Views, check, run

SIGMOID = {
    DType.INT8: Quantization((1 / 256,), (-128,)),
    DType.UINT8: Quantization((1 / 256,), (0,)),
}
CHANNELS_FIRST = (0, 3, 1, 2)


def moves(result: CompileResult) -> list[str]:
    """Operators of layers that only move data."""
    (compiled,) = result.partitions
    return [layer.op for layer in compiled.layers if OPERATORS[layer.op].movement is not None]


def spreads(result: CompileResult) -> list[Spread | None]:
    (compiled,) = result.partitions
    return [binding.spread for binding in parse(compiled.program).outputs]


def flat_head(net: Views, x: int) -> int:
    """(1, C, H * W) of a map, as YOLO's heads make it."""
    _, h, w, c = net.spec(x).shape
    return net.reshape(net.transpose(x, CHANNELS_FIRST), (1, c, h * w))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels", [1, 5, 16, 37, 80])
def test_heads_of_yolo_take_no_task(channels: int, dtype: DType) -> None:
    """Three maps, channels first, one behind the other, a function and a scale of it."""
    parts = []
    net = Views(dtype=dtype)
    for h, w in ((9, 7), (5, 3), (1, 2)):
        shape = (1, h, w, channels)
        x = net.input("x", shape, dtype, SAME)
        parts.append(flat_head(net, net.depthwise(x)))
    joined = net.join(*parts, axis=2)
    y = net.function("LOGISTIC", (joined,), SIGMOID[dtype])
    result = check(net.build(y))
    assert moves(result) == []
    assert [s.first for s in spreads(result) if s is not None] == [0, 63, 78]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels", [2, 7, 24, 91])
def test_heads_of_ssd_take_no_task(channels: int, dtype: DType) -> None:
    """Anchors of a pixel become rows; all of them are one tensor."""
    net = Views(dtype=dtype)
    parts, rows = [], 0
    for h, w, anchors in ((5, 3, 3), (3, 1, 6), (1, 1, 6)):
        x = net.input("x", (1, h, w, 9), dtype, SAME)
        y = net.conv(x, anchors * channels)
        parts.append(net.reshape(y, (1, h * w * anchors, channels)))
        rows += h * w * anchors
    joined = net.join(*parts, axis=1)
    result = check(net.build(net.reshape(joined, (rows, channels))))
    assert moves(result) == []
    assert len(spreads(result)) == 3


def test_parts_of_several_scales_are_tables_of_each() -> None:
    """uint8 alone may have them."""
    net = Views(4, 5, 6, dtype=DType.UINT8)
    parts = []
    for scale in (0.05, 0.031):
        y = net.depthwise(net.map())
        y = net.function("QUANTIZE", (y,), Quantization((scale,), (9,)))
        parts.append(net.reshape(y, (1, 40, 3)))
    joined = net.tensor("joined", (1, 80, 3), DType.UINT8, SAME)
    net.operator(
        "CONCATENATION", parts, (joined,), ConcatenationOptions(1, Activation.NONE), version=2
    )
    result = check(net.build(joined))
    assert spreads(result) == [Spread(0, 0, 30, 6, 1), Spread(120, 0, 30, 6, 1)]


@pytest.mark.parametrize("axis", [2, 3])
def test_parts_side_by_side_take_no_task(axis: int) -> None:
    """The parts may begin at any lanes, and rows of one may lie between rows of the other."""
    net = Views()
    sizes = ((3, 19), (3, 37), (3, 2)) if axis == 3 else ((3, 21), (8, 21), (1, 21))
    parts = []
    for w, c in sizes:
        x = net.input("x", (1, 5, w, c), DType.INT8, SAME)
        parts.append(net.depthwise(x))
    joined = net.join(*parts, axis=axis)
    assert moves(check(net.build(joined))) == []


def test_what_another_node_reads_stays_on_the_device() -> None:
    net = Views(9, 7, 20)
    y = flat_head(net, net.depthwise(net.map()))
    result = check(net.build(y, net.add(y, y)))
    assert moves(result) == ["RESHAPE"]


@pytest.mark.parametrize("shape", [(1, 35, 2, 8), (1, 560), (35, 16), (7, 1, 5, 16)])
def test_outputs_have_any_shape(shape: tuple[int, ...]) -> None:
    net = Views(5, 7, 19)
    y = net.reshape(net.conv(net.map(), 16), shape)
    assert moves(check(net.build(y))) == []


def test_what_was_free_stays_free() -> None:
    net = Views(9, 7, 20)
    y = net.reshape(net.depthwise(net.map()), (1, 63, 20))
    assert spreads(check(net.build(y))) == [None]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 3, 5, 7), (1, 20, 9, 11), (1, 17, 8, 16), (1, 33, 1, 40)])
def test_inputs_with_channels_first_take_no_task(shape: tuple[int, ...], dtype: DType) -> None:
    net = Views(dtype=dtype)
    x = net.input("x", shape, dtype, SAME)
    y = net.depthwise(net.transpose(x, (0, 2, 3, 1)))
    assert moves(check(net.build(y))) == []


@pytest.mark.parametrize("is_live", [False, True])
def test_the_first_and_the_last_node_may_move_whatever_the_size(is_live: bool) -> None:
    """A live interpreter names neither the model's inputs nor its outputs."""
    net = Views(dtype=DType.INT8)
    x = net.input("x", (1, 20, 40, 37), DType.INT8, SAME)
    y = net.depthwise(net.transpose(x, (0, 2, 3, 1)))
    graph = read_graph(net.build(net.transpose(y, CHANNELS_FIRST)))
    if is_live:
        graph = replace(graph, inputs=(), outputs=())
    supported, rejections = select_nodes(graph)
    assert (sorted(supported), rejections) == ([0, 1, 2], ())


def test_values_and_places_change_at_once() -> None:
    """float32 at both edges, channels first."""
    net = Views()
    x = net.input("x", (1, 6, 9, 5), DType.FLOAT32, None)
    y = net.function("QUANTIZE", (x,), SAME, dtype=DType.INT8)
    y = net.depthwise(net.transpose(y, (0, 2, 3, 1)))
    y = flat_head(net, y)
    real = net.tensor("real", net.spec(y).shape, DType.FLOAT32, None)
    net.operator("DEQUANTIZE", (y,), (real,))
    graph_of_floats_is_equal(net.build(real))


def graph_of_floats_is_equal(model: bytes) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-8, 8, (1, 6, 9, 5)).astype(np.float32)
    ours, theirs = (run(model, [x], deny)[0] for deny in ("", "RESHAPE,TRANSPOSE"))
    np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_chains_at_the_end(data: st.DataObject) -> None:
    """Any transposes and reshapes of maps around 8, 16 and 32 pixels and channels."""
    sizes = st.sampled_from((1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 33))
    net = Views(data.draw(sizes), data.draw(sizes), data.draw(sizes), dtype=data.draw(TYPED))
    y = net.depthwise(net.map())
    for _ in range(data.draw(st.integers(1, 3))):
        shape = net.spec(y).shape
        if data.draw(st.booleans()):
            y = net.transpose(y, (0, *data.draw(st.permutations((1, 2, 3)))))
        else:
            divisors = [n for n in range(1, 50) if math.prod(shape) % n == 0]
            inner = data.draw(st.sampled_from(divisors))
            y = net.reshape(y, (1, 1, math.prod(shape) // inner, inner))
    model = net.build(y)
    check_equal(model)


TYPED = st.sampled_from(TYPES)


def check_equal(model: bytes) -> None:
    """As ``check``, whatever stays on the CPU."""
    graph = read_graph(model)
    arrays = random_inputs(graph, graph.inputs, np.random.default_rng(5))
    ours, theirs = (run(model, arrays, deny)[0] for deny in ("", ",".join(VIEW_OPS)))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("classes", [3, 16, 80])
def test_heads_that_are_joined_and_cut_again(classes: int) -> None:
    """As YOLOv8's: 4 x 16 numbers of the edges and classes are one tensor, then two."""
    net = Views()
    lists, rows = [], 0
    for h, w in ((6, 5), (3, 2)):
        x = net.input("x", (1, h, w, 9), DType.INT8, SAME)
        both = net.join(net.conv(x, 64), net.conv(x, classes))
        lists.append(flat_head(net, both))
        rows += h * w
    joined = net.join(*lists, axis=2)
    edges = net.slice_of(joined, (0, 0, 0), (1, 64, rows), strided=True)
    edges = net.reshape(edges, (1, 4, 16, rows))
    edges = net.transpose(edges, (0, 1, 3, 2))
    scores = net.slice_of(joined, (0, 64, 0), (1, classes, rows))
    scores = net.function("LOGISTIC", (scores,), SIGMOID[DType.INT8])
    result = check(net.build(edges, scores))
    assert moves(result) == []
    assert len(spreads(result)) == 2 * 4 + 2


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_parts_that_outputs_share(axis: int) -> None:
    """A part that a layer reads, too, stays where it is."""
    net = Views(4, 6, 32)
    left, right = net.split(net.depthwise(net.map()), 2, axis)
    y = flat_head(net, left)
    check(net.build(y, right, net.depthwise(right)))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_boxes_are_those_of_numpy(data: st.DataObject) -> None:
    """A tensor's parts of pixels and whole surfaces, wherever the host has them."""
    sizes = data.draw(st.sampled_from(([1, 3, 5, 48], [1, 4, 2, 17], [2, 3, 1, 32], [1, 1, 1, 96])))
    shape = tuple(sizes)
    axes = data.draw(st.permutations(range(4)))
    seen = transposed(shape, axes).invert(0, math.prod(shape))
    assert seen is not None
    if data.draw(st.booleans()):  # channels that are several dimensions on the host
        inner = data.draw(st.sampled_from([n for n in range(1, 97) if shape[3] % n == 0]))
        split = (math.prod(shape[:3]), shape[3] // inner, inner)
        back = transposed(split, (1, 0, 2)).invert(0, math.prod(shape))
        assert back is not None
        seen = back
    begin = 16 * data.draw(st.integers(0, (shape[3] - 1) // 16))
    count = data.draw(st.integers(1, shape[3] - begin))
    part = (*shape[:3], count)
    cut = window(shape, (0, 0, 0, begin), part)
    around = cut.invert(0, math.prod(shape))
    assert around is not None
    wanted = around.compose(cut.compose(seen))
    places = np.full(math.prod(shape), -1)
    places[numbers(around) != NOWHERE] = numbers(cut.compose(seen))
    places = places.reshape(shape)
    boxes = boxes_of(wanted, shape)
    if boxes is None:
        return
    found = np.full(shape, -1)
    for spread, (first, channels) in boxes:
        strides = (spread.image, spread.row, spread.pixel, spread.channel)
        of_box = (*shape[:3], channels)
        found[..., first : first + channels] = spread.first + sum(
            np.ix_(*(np.arange(n) * s for n, s in zip(of_box, strides, strict=True)))
        )
    np.testing.assert_array_equal(found, places)


@pytest.mark.parametrize("first", [0, 16, 8])
def test_boxes_begin_at_surfaces(first: int) -> None:
    shape = (1, 2, 3, 32)
    cut = window(shape, (0, 0, 0, first), (1, 2, 3, 9)).invert(0, math.prod(shape))
    assert cut is not None
    expected = [(Spread(0, 0, 27, 9, 1), (first, 9))]
    assert boxes_of(cut, shape) == (None if first % 16 else expected)


def test_boxes_have_all_pixels() -> None:
    shape = (1, 2, 3, 32)
    rows = window(shape, (0, 0, 0, 0), (1, 1, 3, 32)).invert(0, math.prod(shape))
    assert rows is not None
    assert boxes_of(rows, shape) is None


def test_a_split_that_a_layer_reads_from_ends_the_way_back() -> None:
    """One part goes to the host, the other to a layer: the node is needed."""
    net = Views(4, 6, 32)
    left, right = net.split(net.depthwise(net.map()), 2, 2)
    check(net.build(flat_head(net, left), net.depthwise(right)))
