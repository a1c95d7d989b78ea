"""SLICE: a box of its input, from a constant position on."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Role, Shape
from delegate.ops.shared.links import Link, check_size, integers, part_at
from delegate.ops.shared.moving import cutting


def links(graph: Graph, node: Node) -> tuple[Link, ...]:
    begin, sizes = _box(graph, node)
    check_size(graph, node, sizes)
    return (part_at(graph, node.inputs[0], node.outputs[0], begin),)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    return (_box(graph, node)[1],)


def _box(graph: Graph, node: Node) -> tuple[Shape, Shape]:
    """Begin and sizes, of which -1 is what is left. Raises LinkError."""
    shape = graph.tensor(node.inputs[0]).shape
    begin, sizes = (integers(graph, index, len(shape)) for index in node.inputs[1:])
    left = (d - b if s == -1 else s for d, b, s in zip(shape, begin, sizes, strict=True))
    return begin, tuple(left)


OPERATOR = cutting("SLICE", links, shapes, Role.FEATURE, Role.NUMBERS, Role.NUMBERS, most_outputs=1)
