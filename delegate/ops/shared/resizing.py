"""What operators that resize images share: their rules."""

from __future__ import annotations

from delegate.chip.chip import Chip
from delegate.model.graph import Graph, Node
from delegate.ops.operator import GraphFacts, Shape, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.links import LinkError, integers
from delegate.ops.shared.pooling import pool_keeps_quantization, pool_rank

SIZES = 1


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """The new height and width are constants. Raises LinkError where they are none."""
    images, *_, channels = graph.tensor(node.inputs[0]).shape
    rows, columns = integers(graph, node.inputs[SIZES], 2)
    return ((images, rows, columns, channels),)


@constraint()
def new_size_known(facts: GraphFacts, node: Node) -> str | None:
    """The new height and width must be constants, those of the output."""
    try:
        (shape,) = shapes(facts.graph, node)
    except LinkError as error:
        return str(error)
    output = facts.outputs(node)[0]
    if output.shape == shape:
        return None
    return f"they give {list(shape)}, {named(output)} is {list(output.shape)}"


def _most_side(chip: Chip) -> int:
    return chip.limits.cube_size


@constraint(most=_most_side)
def resized_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height, width and channels of the output must be at most {most}."""
    _, *sides = facts.outputs(node)[0].shape
    return f"they are {sides}" if max(sides) > _most_side(facts.chip) else None


GEOMETRY = (pool_rank, new_size_known, resized_sides_in_range)

RULES = (
    *common.FIRST,
    *common.QUANTIZATION,
    pool_rank,
    pool_keeps_quantization,
    *GEOMETRY[1:],
)
