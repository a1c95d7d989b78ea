"""EXPAND_DIMS: the same pixels in other rows and columns, free."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Role, Shape
from delegate.ops.shared.common import axis_of
from delegate.ops.shared.maps import integers
from delegate.ops.shared.reshaping import reshaping


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Return the shape with a dimension of 1 before the axis."""
    source = graph.tensor(node.inputs[0]).shape
    axis = axis_of(integers(graph, node.inputs[1], 1)[0], (*source, 1))
    return ((*source[:axis], 1, *source[axis:]),)


OPERATOR = reshaping("EXPAND_DIMS", shapes, Role.NUMBERS)
