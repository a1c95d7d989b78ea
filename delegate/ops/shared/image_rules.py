"""Rules of images, and of scales that the runtime demands: of operators of several kinds."""

from __future__ import annotations

from delegate.chip.chip import Chip
from delegate.model.graph import Node
from delegate.ops.operator import Constraint, GraphFacts, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.common import keeps_quantization

RANK = 4
"""The rank of an image: batch, height, width and channels. The NPU has no more dimensions."""
PROBABILITY_SCALE = 1 / 256


@constraint(rank=RANK)
def image_rank(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must have rank {rank}."""
    return common.other_rank(facts.features(node), RANK, RANK)


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
