"""SLICE: a box of its input, from a constant position on."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap
from delegate.ops.operator import Role, Shape
from delegate.ops.shared.maps import integers, window
from delegate.ops.shared.moving import cutting


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    return (window(graph.tensor(node.inputs[0]).shape, *_box(graph, node)),)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    return (_box(graph, node)[1],)


def _box(graph: Graph, node: Node) -> tuple[Shape, Shape]:
    """Return begin and sizes, of which -1 is what is left. Raises MapError."""
    shape = graph.tensor(node.inputs[0]).shape
    begin, sizes = (integers(graph, index, len(shape)) for index in node.inputs[1:])
    left = (d - b if s == -1 else s for d, b, s in zip(shape, begin, sizes, strict=True))
    return begin, tuple(left)


OPERATOR = cutting("SLICE", maps, shapes, Role.FEATURE, Role.NUMBERS, Role.NUMBERS, most_outputs=1)
