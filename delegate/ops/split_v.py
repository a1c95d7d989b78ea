"""SPLIT_V: parts of given sizes of its input along a constant axis, which is the last input."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError
from delegate.ops.operator import Role, Shape
from delegate.ops.shared.common import axis_of
from delegate.ops.shared.maps import integers, split
from delegate.ops.shared.moving import cutting


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Return the shapes of parts; one size may be -1: what is left. Raises MapError."""
    whole, numbers, axis_tensor = node.inputs
    shape = graph.tensor(whole).shape
    axis = axis_of(integers(graph, axis_tensor, 1)[0], shape)
    given = integers(graph, numbers, len(node.outputs))
    left = shape[axis] - sum(size for size in given if size != -1)
    sizes = [left if size == -1 else size for size in given]
    if sum(sizes) != shape[axis] or min(sizes) < 0:
        raise MapError(f"parts of {list(given)} make no {list(shape)} along axis {axis}")
    return tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes)


def maps(graph: Graph, node: Node) -> tuple[IndexMap, ...]:
    shape = graph.tensor(node.inputs[0]).shape
    axis = axis_of(integers(graph, node.inputs[2], 1)[0], shape)
    return split(shape, [part[axis] for part in shapes(graph, node)], axis)


OPERATOR = cutting("SPLIT_V", maps, shapes, Role.FEATURE, Role.NUMBERS, Role.NUMBERS)
