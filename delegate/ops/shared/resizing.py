"""Rules of operators that resize images."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.ops.operator import GraphFacts, Shape, constraint
from delegate.ops.shared.image_rules import of_kept_values, other_shape, output_sides_in_range
from delegate.ops.shared.links import integers
from delegate.ops.shared.pooling import pool_rank

SIZES = 1


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """The new height and width are constants. Raises LinkError where they are none."""
    images, *_, channels = graph.tensor(node.inputs[0]).shape
    rows, columns = integers(graph, node.inputs[SIZES], 2)
    return ((images, rows, columns, channels),)


@constraint()
def new_size_known(facts: GraphFacts, node: Node) -> str | None:
    """The new height and width must be constants, those of the output."""
    return other_shape(facts, node)


GEOMETRY = (pool_rank, new_size_known, output_sides_in_range)

RULES = of_kept_values(*GEOMETRY)
