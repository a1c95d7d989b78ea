"""SPLIT: equal parts of its input along a constant axis, which is the first input."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Role, Shape
from delegate.ops.shared.links import Link, LinkError, axis_of, integers, parts_along
from delegate.ops.shared.moving import cutting


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    numbers, whole = node.inputs
    shape, parts = graph.tensor(whole).shape, len(node.outputs)
    axis = axis_of(integers(graph, numbers, 1)[0], shape)
    if shape[axis] % parts:
        raise LinkError(f"{parts} parts of {list(shape)} along axis {axis} are not equal")
    return ((*shape[:axis], shape[axis] // parts, *shape[axis + 1 :]),) * parts


def links(graph: Graph, node: Node) -> tuple[Link, ...]:
    axis, whole = node.inputs
    return parts_along(graph, whole, node.outputs, integers(graph, axis, 1)[0])


OPERATOR = cutting("SPLIT", links, shapes, Role.NUMBERS, Role.FEATURE)
