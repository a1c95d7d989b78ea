"""Transposes and reshapes of channels, and chains: each element where TensorFlow Lite puts it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from delegate.compile.compiler import compile_model
from delegate.errors import LoweringError
from delegate.lower.lowering import lower_partition
from delegate.lower.memory.tensors import view_of
from delegate.lower.moves import Moves, spots
from delegate.lower.rearrangement import image_by_image, moves_once_and_again
from delegate.model.graph import Partition
from delegate.model.index_map import IndexMap, MapError, identity, tiled
from delegate.model.tflite_reader import read_graph
from delegate.ops.operator import GraphFacts
from delegate.ops.shared.maps import gathered, transposed
from delegate.ops.shared.reshaping import reorder_operations
from delegate.options import Options
from delegate.partition.workload import workload_of
from tests.index_maps import NOWHERE, moved
from tests.lower.test_aliases import Views, check


@pytest.mark.parametrize("channels", [16, 37, 64])
def test_what_a_head_does_is_one_layer(channels: int) -> None:
    """TRANSPOSE and RESHAPE, as in YOLO's heads, although the one in between is never written."""
    net = Views(11, 9, channels)
    y = net.transpose(net.depthwise(net.map()), (0, 3, 1, 2))
    y = net.reshape(y, (1, channels, 99))
    result = check(net.build(y, net.add(y, y)))
    assert [layer.nodes for layer in result.partitions[0].layers][1] == (1, 2)


def test_a_chain_that_somebody_looks_into_is_two() -> None:
    net = Views(3, 5, 16)
    between = net.transpose(net.depthwise(net.map()), (0, 3, 1, 2))
    y = net.reshape(between, (1, 16, 15))
    check(net.build(net.add(y, y), between))


def test_a_chain_whose_middle_a_partition_gives_is_two() -> None:
    """Runtimes tell delegates the outputs of each partition, not those of the model."""
    net = Views(2, 9, 16)
    between = net.transpose(net.depthwise(net.map()), (0, 2, 1, 3))
    y = net.reshape(between, (1, 1, 9, 32))
    graph = replace(read_graph(net.build(net.conv(y, 9), between)), outputs=())
    nodes = [node.index for node in graph.nodes]
    partition = Partition(tuple(nodes), graph.inputs, (between, graph.nodes[-1].outputs[0]))
    layers = lower_partition(workload_of(graph, partition), "p").layers
    assert [layer.nodes for layer in layers] == [(0,), (1,), (2,), (3,)]


def test_a_chain_that_is_cut_may_be_too_much_for_one_node() -> None:
    """Both together are a few convolutions, the first alone is one for every row."""
    net = Views(130, 40, 16)
    y = net.transpose(net.depthwise(net.map()), (0, 3, 1, 2))
    y = net.reshape(y, (1, 16, 5200))
    model = net.build(y, net.add(y, y))
    check(model)
    graph = read_graph(model)
    with pytest.raises(LoweringError) as caught:
        reorder_operations(GraphFacts(graph), graph.nodes[1:2], ())
    assert (caught.value.node, caught.value.rule) == (1, "reordered_alone")


@pytest.mark.parametrize(
    ("channels", "images"), [(39, 3), (64, 4), (784, 4), (50, 2), (35, 5), (192, 2)]
)
def test_channels_from_any_on_become_pixels_of_an_image(channels: int, images: int) -> None:
    """As windows of a transformer, behind a normalisation that has turned pixels and channels."""
    net = Views(12, 1, channels)
    y = net.transpose(net.depthwise(net.map()), (0, 3, 1, 2))
    y = net.reshape(y, (images, channels // images, 1, 12))
    result = check(net.build(net.conv(y, 9)))
    assert [layer.nodes for layer in result.partitions[0].layers] == [(0,), (1, 2), (3,)]


def test_a_chain_takes_the_fewest_moves_that_there_can_be() -> None:
    """To windows of 7 by 7: turned round first, as tasks turn no pixels under two strides."""
    net = Views(48, 1, 784)
    y = net.transpose(net.depthwise(net.map()), (0, 3, 1, 2))
    y = net.transpose(net.reshape(y, (4, 7, 4, 7, 48)), (0, 2, 1, 3, 4))
    y = net.reshape(y, (16, 49, 48))
    result = check(net.build(net.add(y, y)))
    assert [layer.nodes for layer in result.partitions[0].layers][1:-1] == [(1, 2), (3, 4)]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_every_element_goes_from_one_image_to_another_once(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=4, max_size=6))
    axes = data.draw(st.permutations(range(len(shape))))
    values = np.arange(math.prod(shape)).reshape(shape)
    expected = values.transpose(axes)
    source, result = view_of(shape), view_of(expected.shape)
    images = values.reshape(source.images, -1)
    made = np.full((result.images, expected.size // result.images), NOWHERE)
    for image, number, part in image_by_image(transposed(shape, axes), source, result):
        found = moved(part, {0: images[image]})
        assert (made[number][found != NOWHERE] == NOWHERE).all()
        made[number] = np.where(found == NOWHERE, made[number], found)
    np.testing.assert_array_equal(made.ravel(), expected.ravel())


@pytest.mark.parametrize(
    ("before", "axes", "after"),
    [((1, 6, 7, 6), (0, 1, 2, 3), (1, 6, 3, 14)), ((1, 12, 20, 85), (0, 2, 3, 1), (1, 20, 85, 12))],
)
def test_what_no_few_convolutions_do_stays(
    before: tuple[int, ...], axes: tuple[int, ...], after: tuple[int, ...]
) -> None:
    """6 channels are no part of 14; pixels that become channels lie too far apart."""
    net = Views(*before[1:])
    y = net.depthwise(net.map())
    is_reshape = axes == (0, 1, 2, 3)
    y = net.reshape(y, after) if is_reshape else net.transpose(y, axes)
    check(net.build(net.add(y, y)), refused=[(1, "order_possible")])


shapes = st.lists(
    st.sampled_from((1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 32, 33)), min_size=2, max_size=4
)


Numbers = npt.NDArray[Any]
Step = tuple[IndexMap, Numbers]


def _transposed(data: st.DataObject, values: Numbers) -> Step:
    axes = data.draw(st.permutations(range(values.ndim)))
    return transposed(values.shape, axes), values.transpose(axes)


def _tiled(data: st.DataObject, values: Numbers) -> Step:
    times = [data.draw(st.sampled_from((1, 1, 2, 3, 7))) for _ in values.shape]
    return tiled(values.shape, times), np.tile(values, times)


def _gathered(data: st.DataObject, values: Numbers) -> Step:
    axis = data.draw(st.integers(0, values.ndim - 1))
    indices = st.integers(0, values.shape[axis] - 1)
    places = data.draw(st.lists(indices, min_size=1, max_size=6))
    return gathered(values.shape, places, axis), values.take(places, axis)


def _moved(moves: Moves, values: Numbers, flat: Numbers, source: int, result: int) -> None:
    """Move what ``moves`` say of pixels of so many channels."""
    given = values.ravel().copy()
    groups = ((source, result), (source, 1), (1, result), (1, 1))
    found = [(moves.first[0] * source, moves.first[1] * result)]
    steps = (spots(moves.pixels), spots(moves.joined), spots(moves.cut), moves.channels)
    for group, scales in zip(steps, groups, strict=True):
        found = [(a + s * scales[0], b + t * scales[1]) for s, t in group for a, b in found]
    for place, at in found:
        flat[at] = given[place]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_moves_are_those_of_numpy(data: st.DataObject) -> None:
    """Moves of any chain of transposes, reshapes, repetitions and choices are NumPy's, where they
    are known; once, and then within the result.
    """
    shape = data.draw(shapes)
    start = values = np.arange(int(np.prod(shape))).reshape(shape)
    chain = identity(shape)
    for _ in range(data.draw(st.integers(1, 3))):
        step, values = data.draw(st.sampled_from((_transposed, _tiled, _gathered)))(data, values)
        chain = step.compose(chain)
        merged = data.draw(st.integers(0, values.ndim - 1))
        if merged and data.draw(st.booleans()):
            joined = (*values.shape[: merged - 1], -1, *values.shape[merged + 1 :])
            values = values.reshape(joined)
        assume(values.size < 50_000)
    channels, result = shape[-1], values.shape[-1]
    try:
        size = start.size // channels, channels
        found = moves_once_and_again(chain, size, result, result)
    except MapError:
        return
    if found is None:
        return
    flat = np.full(values.size, -1)
    for moves in found[0]:
        _moved(moves, start, flat, channels, result)
    for moves in found[1]:
        assert max(a for a, _ in spots(moves.pixels)) < -np.subtract(*moves.first)
        _moved(moves, flat, flat, result, result)
    np.testing.assert_array_equal(flat, values.ravel())


@pytest.mark.parametrize(("rows", "tasks"), [(2, 2), (7, 4), (64, 7), (200, 9)])
def test_what_repeats_a_map_is_copied_from_it(rows: int, tasks: int) -> None:
    """As much as is there each time."""
    net = Views(3, 5, 16)
    y = net.tile(net.depthwise(net.map()), (1, rows, 1, 1))
    result = check(net.build(net.add(y, y)))
    assert len(result.partitions[0].layers[1].tasks) == tasks


@pytest.mark.parametrize("shape", [(1, 35, 2, 8), (1, 560), (35, 16), (7, 1, 5, 16)])
def test_far_pixels_stay_on_the_cpu(shape: tuple[int, ...]) -> None:
    net = Views(5, 7, 19)
    x = net.conv(net.map(), 16)
    y = net.reshape(x, shape)
    result = compile_model(net.build(y, net.add(y, y)), Options(numerics="exact"))
    rules = [(r.node, r.rule) for r in result.rejections if r.node == 1]
    is_possible = shape != (1, 560)
    assert rules == ([] if is_possible else [(1, "order_possible")])
