"""TILE: its input several times side by side, in every dimension."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError, tiled
from delegate.ops.operator import GraphFacts, Role, Shape, constraint
from delegate.ops.shared.common import other_shape
from delegate.ops.shared.maps import integers
from delegate.ops.shared.reshaping import reshaping


def _times(graph: Graph, node: Node) -> Shape:
    """Return how often each dimension is repeated. Raises MapError, ValueError of inputs that TILE
    does not have.
    """
    source, factors = node.inputs
    times = integers(graph, factors, len(graph.tensor(source).shape))
    if min(times, default=1) < 1:
        raise MapError(f"the factors are {list(times)}")
    return times


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    shape, times = graph.tensor(node.inputs[0]).shape, _times(graph, node)
    return (tuple(map(int.__mul__, shape, times)),)


@constraint()
def repeated_as_known(facts: GraphFacts, node: Node) -> str | None:
    """The factor of every dimension must be constant, and give the output's shape."""
    return other_shape(facts, node)


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    return (tiled(graph.tensor(node.inputs[0]).shape, _times(graph, node)),)


OPERATOR = reshaping("TILE", shapes, Role.NUMBERS, maps=maps, rules=(repeated_as_known,))
