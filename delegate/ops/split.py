"""SPLIT: equal parts of its input along a constant axis, which is the first input."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError
from delegate.ops.operator import Role, Shape
from delegate.ops.shared.common import axis_of
from delegate.ops.shared.maps import integers, split
from delegate.ops.shared.moving import cutting


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    numbers, whole = node.inputs
    shape, parts = graph.tensor(whole).shape, len(node.outputs)
    axis = axis_of(integers(graph, numbers, 1)[0], shape)
    if shape[axis] % parts:
        raise MapError(f"{parts} parts of {list(shape)} along axis {axis} are not equal")
    return ((*shape[:axis], shape[axis] // parts, *shape[axis + 1 :]),) * parts


def maps(graph: Graph, node: Node) -> tuple[IndexMap, ...]:
    shape = graph.tensor(node.inputs[1]).shape
    axis = axis_of(integers(graph, node.inputs[0], 1)[0], shape)
    return split(shape, [part[axis] for part in shapes(graph, node)], axis)


OPERATOR = cutting("SPLIT", maps, shapes, Role.NUMBERS, Role.FEATURE)
