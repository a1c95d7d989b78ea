"""RESHAPE: the same pixels in other rows and columns, free."""

from __future__ import annotations

import math

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Role, Shape
from delegate.ops.shared.maps import integers
from delegate.ops.shared.reshaping import reshaping


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Return the shape that the second input says, where -1 is what is left; options are not
    read.
    """
    source, *numbers = node.inputs
    if not numbers:
        raise ValueError("the options alone say the shape")
    elements = math.prod(graph.tensor(source).shape)
    given = integers(graph, numbers[0], math.prod(graph.tensor(numbers[0]).shape))
    known = math.prod(size for size in given if size != -1)
    if -1 in given:
        if given.count(-1) > 1 or known < 1 or elements % known:
            raise ValueError(f"{elements} elements make no {list(given)}")
        return (tuple(elements // known if size == -1 else size for size in given),)
    if known != elements:
        raise ValueError(f"{elements} elements make no {list(given)}")
    return (given,)


OPERATOR = reshaping("RESHAPE", shapes, Role.NUMBERS)
