"""Shapes that follow from those of a partition's inputs: the runtime's own."""

from collections.abc import Callable

import numpy as np
import pytest

from delegate.host.runtimes import find_runtime
from delegate.model.graph import DType, Graph, Padding, Partition, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.ops.operator import ABSENT
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.partition.partitioner import select_nodes
from delegate.partition.shapes import first_unknown, following_shapes, with_shapes
from rk3588_conformance.builder import Net
from rk3588_conformance.cut_model import exposed_model
from rk3588_conformance.generated.random_graphs import random_graph
from tests.loops import for_each


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_says_the_shapes_of_its_results(name: str) -> None:
    """Else a partition with it cannot be compiled again after a resize."""
    operator = OPERATORS[name]
    assert any((operator.shapes, operator.function, operator.real))


def known_part(graph: Graph) -> Partition:
    """Return what the records allow, as far as nothing else comes between."""
    supported, _ = select_nodes(graph)
    known = set(graph.inputs)
    nodes = []
    for node in graph.nodes:
        computed = [t for t in node.inputs if t != ABSENT and graph.tensor(t).constant is None]
        if node.index in supported and known.issuperset(computed):
            nodes.append(node.index)
            known.update(node.outputs)
    return Partition(tuple(nodes), tuple(graph.inputs), ())


def test_shapes_follow_as_in_the_runtime() -> None:
    """Random graphs get other images, batches, rows and columns: whatever the kernels take."""
    compared = refused = 0
    for seed in range(120):
        content = random_graph(seed).content
        graph = read_graph(content)
        partition = known_part(graph)
        rng = np.random.default_rng(seed)
        batch, rows, columns = (int(rng.integers(0, 3)) for _ in range(3))
        given = {
            t: (n + batch, h + rows * (h > 1), w + columns * (w > 1), c)
            for t in graph.inputs
            for n, h, w, c in [graph.tensor(t).shape]
        }
        shapes = following_shapes(with_shapes(graph, given), partition)
        interpreter = find_runtime().interpreter(exposed_model(content), reference_kernels=True)
        for tensor, shape in given.items():
            interpreter.resize_tensor_input(tensor, shape)
        try:
            interpreter.allocate_tensors()
            interpreter.invoke()  # slices tell their shapes only then
        except (RuntimeError, ValueError):
            refused += 1
            continue
        for node in map(graph.node, partition.nodes):
            # Of a slice with a result of fixed shape the runtime keeps that shape.
            if node.op == "SLICE" and not graph.tensor(node.outputs[0]).shape_signature:
                break
            for tensor in node.outputs:
                assert shapes[tensor] == interpreter.get_tensor(tensor).shape, (seed, node)
                compared += 1
    assert compared > 100
    assert refused < 60


def test_what_the_graph_says_of_results_does_not_count() -> None:
    graph = read_graph(random_graph(2).content)
    partition = known_part(graph)
    results = [t for n in partition.nodes for t in graph.node(n).outputs]
    wrong = with_shapes(graph, dict.fromkeys(results, (7, 1, 1, 1)))
    assert following_shapes(wrong, partition) == following_shapes(graph, partition)
    assert results
    assert first_unknown(graph, partition, following_shapes(graph, partition)) is None


def test_shapes_end_where_none_follow() -> None:
    builder = Net("ranks")
    x = builder.input("x", (1, 4, 4, 32), DType.INT8)
    y = builder.tensor("y", (1, 4, 4, 16), DType.INT8)
    numbers = [builder.constant(f"n{i}", np.array(v, np.int32)) for i, v in
               enumerate(([0, 0, 0, 16], [1, 4, 4, 16]))]  # fmt: skip
    builder.operator("SLICE", (x, *numbers), (y,), None)
    graph = read_graph(builder.build(y))
    partition = Partition((0,), (x,), (y,))
    assert following_shapes(graph, partition) == {x: (1, 4, 4, 32), y: (1, 4, 4, 16)}
    other = with_shapes(graph, {x: (4, 32)})
    shapes = following_shapes(other, partition)
    assert shapes == {x: (4, 32)}
    assert first_unknown(other, partition, shapes) == graph.node(0)


def reshaped(builder: Net, x: int, numbers: tuple[int, ...]) -> int:
    spec = builder.spec(x)
    shape = np.zeros(spec.shape).reshape(numbers).shape
    y = builder.tensor("reshaped", shape, spec.dtype, spec.quantization)
    constant = builder.constant("numbers", np.array(numbers, np.int32))
    builder.operator("RESHAPE", (x, constant), (y,), None)
    return y


MAKERS: dict[str, Callable[[Net, int], int]] = {
    "RESHAPE to what is left": lambda b, x: reshaped(b, x, (1, -1, 16)),
    "RESHAPE to one image": lambda b, x: reshaped(b, x, (1, 1, -1, 16)),
    "RESHAPE to a fixed shape": lambda b, x: reshaped(b, x, (1, 6, 16)),
    "SQUEEZE": lambda b, x: b.squeeze(x, (6, 16)),
    "EXPAND_DIMS": lambda b, x: b.expand_dims(x, (1, 1, 1, 6, 16)),
    "SAME": lambda b, x: b.pool("MAX_POOL_2D", x, 3, 2, 2, 3),
    "VALID": lambda b, x: b.pool("AVERAGE_POOL_2D", x, 1, 2, 2, 3, Padding.VALID),
    "MEAN": lambda b, x: b.reduced("MEAN", x, Quantization((0.1,), (0,)), keep_dims=True),
    "MEAN without pixels": lambda b, x: b.reduced(
        "MEAN", x, Quantization((0.1,), (0,)), keep_dims=False
    ),
    "REDUCE_MAX": lambda b, x: b.reduced("REDUCE_MAX", x, keep_dims=False, axes=(-2, 1)),
    "RESIZE_NEAREST_NEIGHBOR": lambda b, x: b.resize(
        "RESIZE_NEAREST_NEIGHBOR", x, 4, 12, ResizeNearestOptions()
    ),
}


@pytest.mark.parametrize("maker", MAKERS)
@for_each("shape", [(1, 1, 6, 16), (3, 1, 6, 16), (1, 5, 6, 16), (2, 7, 4, 16)])
def test_shapes_of_one_operator_follow_as_in_the_runtime(
    maker: str, shape: tuple[int, ...]
) -> None:
    """Or none do, and the runtime says which."""
    builder = Net("one")
    x = builder.input("x", (1, 1, 6, 16), DType.INT8, Quantization((0.1,), (0,)))
    y = MAKERS[maker](builder, x)
    content = builder.build(y)
    graph = with_shapes(read_graph(content), {x: shape})
    shapes = following_shapes(graph, Partition((0,), (x,), (y,)))
    interpreter = find_runtime().interpreter(content, reference_kernels=True)
    interpreter.resize_tensor_input(x, shape)
    try:
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):
        assert y not in shapes
        return
    expected = tuple(interpreter.get_output_details()[0]["shape"])
    assert shapes.get(y, expected) == expected
    assert y in shapes or maker == "SQUEEZE"
