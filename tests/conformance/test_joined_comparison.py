"""Parts of one result are compared together: alone they would not be joined."""

from functools import partial

from delegate.lower.lowered import Layer
from delegate.lower.numerics.pipeline import Difference
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from delegate.partition.half import as_computed
from rk3588_conformance import joined_nodes
from rk3588_conformance.builder import Net, options
from rk3588_conformance.builder.layers import Window
from tests.lower.fusion_graphs import arithmetic
from tests.ops.test_channels_first import FIRST, Normalised

BETWEEN = Quantization((0.06,), (5,))


def layer(nodes: tuple[int, ...], difference: Difference | None) -> Layer:
    told = difference and partial(Difference, difference.most_lsb, difference.share)
    return Layer("layer", "CONV_2D", nodes, (), "", told)


def test_layers_with_the_last_node_in_common_are_one_group():
    layers = [
        layer((0, 7), Difference(1, 0.1)),
        layer((1,), None),
        layer((2, 3), Difference(1, 0.2)),
        layer((4, 7), Difference(2, 0.05)),
    ]
    found = joined_nodes.joined_nodes(layers)
    assert found == {7: ([0, 4, 7], Difference(2, 0.1)), 3: ([2, 3], Difference(1, 0.2))}


def test_moves_between_them_belong_to_them():
    builder = Net("heads")
    x = builder.input("x", (1, 4, 6, 16), DType.INT8, Quantization((0.05,), (-7,)))
    parts = []
    for seed in range(2):
        y = builder.conv(x, 12, Window(1, 1), arithmetic=arithmetic(DType.INT8))
        z = builder.tensor(f"row {seed}", (1, 24, 12), DType.INT8, BETWEEN)
        builder.operator("RESHAPE", (y,), (z,), options.reshape((1, 24, 12)))
        parts.append(z)
    whole = builder.concatenation(tuple(parts), 1)
    builder.output(builder.function("LOGISTIC", (whole,), Quantization((1 / 256,), (-128,))))
    graph = read_graph(builder.build())
    names = [node.op for node in graph.nodes]
    own = [i for i, name in enumerate(names) if name != "RESHAPE"]
    between = joined_nodes.with_what_lies_between(graph, own)
    assert [node.op for node in between] == names
    first = joined_nodes.with_what_lies_between(graph, own[:1])
    assert [node.index for node in first] == [0]


def test_of_several_that_round_together_nothing_is_claimed():
    """They are layers that are channels first; a mean alone is within a step."""
    normalised = Normalised((1, 5, 7, 33))
    graph = as_computed(read_graph(normalised.model(normalised.last)), Options())
    found = joined_nodes.with_said_together(graph, {}, [node.index for node in graph.nodes])
    assert list(found.values()) == [([1, 2, 3, 4, 5], joined_nodes.UNCLAIMED)]

    builder = Net("mean")
    x = builder.input("x", (1, 5, 7, 33), DType.INT8, BETWEEN)
    y = builder.reduced("MEAN", builder.transpose(x, FIRST), BETWEEN, keep_dims=False, axes=(2, 3))
    graph = as_computed(read_graph(builder.build(y)), Options())
    assert joined_nodes.with_said_together(graph, {}, [0, 1]) == {1: ([0, 1], None)}
    claim = {0: ([0], Difference(2, 0.1))}
    assert joined_nodes.with_said_together(graph, claim, [0, 1])[1][1] == joined_nodes.UNCLAIMED
