"""REVERSE_V2: a dimension backwards, as flips of images and of channels (RGB to BGR) are."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError
from delegate.ops.operator import GraphFacts, Role, constraint
from delegate.ops.shared.common import axis_of, other_shape, same_shape
from delegate.ops.shared.maps import integers, window
from delegate.ops.shared.reshaping import reshaping


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    """Return where elements come from. Raises MapError."""
    source, number = node.inputs
    shape = graph.tensor(source).shape
    (given,) = integers(graph, number, 1)
    axis = axis_of(given, shape)
    begin, steps = [0] * len(shape), [1] * len(shape)
    begin[axis], steps[axis] = shape[axis] - 1, -1
    return (window(shape, begin, shape, steps),)


@constraint()
def reversed_axis(facts: GraphFacts, node: Node) -> str | None:
    """There must be one axis, a constant, and the output have the input's shape: kernels of several
    axes differ.
    """
    try:
        maps(facts.graph, node)
    except MapError as error:
        return str(error)
    return other_shape(facts, node)


OPERATOR = reshaping("REVERSE_V2", same_shape, Role.NUMBERS, maps=maps, rules=(reversed_axis,))
