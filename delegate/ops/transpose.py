"""TRANSPOSE: dimensions in another order."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError
from delegate.ops.operator import GraphFacts, Role, Shape, constraint
from delegate.ops.shared.image_rules import other_shape
from delegate.ops.shared.maps import integers, transposed
from delegate.ops.shared.reshaping import reshaping

AXES = 1


def axes_of(graph: Graph, node: Node) -> Shape:
    """The operand's dimension that each of the result is. Raises MapError."""
    rank = len(graph.tensor(node.inputs[0]).shape)
    given = integers(graph, node.inputs[AXES], rank)
    axes = tuple(axis + rank if axis < 0 else axis for axis in given)
    if sorted(axes) != list(range(rank)):
        raise MapError(f"the axes are {list(given)}")
    return axes


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    shape = graph.tensor(node.inputs[0]).shape
    return (tuple(shape[axis] for axis in axes_of(graph, node)),)


@constraint()
def transposed_axes(facts: GraphFacts, node: Node) -> str | None:
    """The axes must be constant, each once, and give the output's shape."""
    return other_shape(facts, node)


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    return (transposed(graph.tensor(node.inputs[0]).shape, axes_of(graph, node)),)


OPERATOR = reshaping("TRANSPOSE", shapes, Role.NUMBERS, maps=maps, rules=(transposed_axes,))
