"""Rules of shapes and scales that operators of several kinds share: ranks, sides, quantisation."""

from __future__ import annotations

from delegate.chip.chip import Chip
from delegate.model.graph import Node
from delegate.ops.operator import Constraint, GraphFacts, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.common import MOST_RANK

RANK = 4
"""The rank of an image: batch, height, width and channels. The NPU has no more dimensions."""
PROBABILITY_SCALE = 1 / 256


@constraint(most=MOST_RANK)
def feature_rank(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and outputs must have rank 1 to {most}."""
    return common.other_rank(facts.features(node), 1, MOST_RANK)


@constraint(rank=RANK)
def image_rank(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must have rank {rank}."""
    return common.other_rank(facts.features(node), RANK, RANK)


def other_shape(facts: GraphFacts, node: Node) -> str | None:
    """Return how the output's shape is not the one that follows from the inputs; None: it is."""
    try:
        shapes = facts.operator(node).output_shapes(facts.graph, node)
    except ValueError as error:
        return str(error)
    assert shapes is not None, node.op
    output, shape = facts.outputs(node)[0], tuple(shapes[0])
    is_equal = output.shape == shape
    return None if is_equal else f"{named(output)} is {list(output.shape)}, not {list(shape)}"


@constraint()
def keeps_quantization(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and outputs must have the same scale and zero point."""
    first, *others = facts.features(node)
    other = next((t for t in others if t.quantization != first.quantization), None)
    return None if other is None else f"{named(first)} and {named(other)} differ"


def _most_side(chip: Chip) -> int:
    """Return the longest side that tasks write."""
    return chip.limits.cube_size


@constraint(most=_most_side)
def output_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height, width and channels of the output must be at most {most}."""
    shape = facts.outputs(node)[0].shape
    sides = [*((1,) * RANK + shape)[-RANK + 1 :]]
    return f"they are {sides}" if max(sides) > _most_side(facts.chip) else None


@constraint(scale=PROBABILITY_SCALE)
def probability_scale(facts: GraphFacts, node: Node) -> str | None:
    """The output's scale must be 1/256 and its zero point the least value, as the runtime
    demands.
    """
    output = facts.outputs(node)[0]
    assert output.quantization is not None
    found = output.quantization.scale, output.quantization.zero_point
    if found == (PROBABILITY_SCALE, common.TYPE_RANGES[output.dtype][0]):
        return None
    return f"{named(output)} has the scale {found[0]} and the zero point {found[1]}"


def of_kept_values(rank: Constraint, *geometry: Constraint) -> tuple[Constraint, ...]:
    """Return the rules of operators whose results are among their input's values."""
    return (*common.FIRST, common.quantization_in_range, rank, keeps_quantization, *geometry)
