"""SPLIT_V: parts of given sizes of its input along a constant axis, which is the last input."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Role, Shape
from delegate.ops.shared.links import Link, LinkError, axis_of, integers, parts_along
from delegate.ops.shared.moving import cutting


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """One size may be -1: what is left. Raises LinkError."""
    whole, numbers, axis_tensor = node.inputs
    shape = graph.tensor(whole).shape
    axis = axis_of(integers(graph, axis_tensor, 1)[0], shape)
    given = integers(graph, numbers, len(node.outputs))
    left = shape[axis] - sum(size for size in given if size != -1)
    sizes = [left if size == -1 else size for size in given]
    if sum(sizes) != shape[axis] or min(sizes) < 0:
        raise LinkError(f"parts of {list(given)} make no {list(shape)} along axis {axis}")
    return tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes)


def links(graph: Graph, node: Node) -> tuple[Link, ...]:
    found = tuple(graph.tensor(part).shape for part in node.outputs)
    if found != shapes(graph, node):
        raise LinkError(f"the parts are {[list(size) for size in found]}")
    return parts_along(graph, node.inputs[0], node.outputs, integers(graph, node.inputs[2], 1)[0])


OPERATOR = cutting("SPLIT_V", links, shapes, Role.FEATURE, Role.NUMBERS, Role.NUMBERS)
