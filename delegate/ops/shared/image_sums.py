"""Plan MEAN and SUM over height and width: the sum of an image, requantised."""

from __future__ import annotations

from collections.abc import Callable

from delegate.lower.known_stages import RECORD, rounds_twice, ties_away
from delegate.lower.numerics.means import requantize_image
from delegate.lower.numerics.prover import Target
from delegate.lower.operation import Operation, Planning
from delegate.lower.task import TaskKind
from delegate.lower.window_sums import WindowSums
from delegate.model.graph import Node
from delegate.ops.operator import GraphFacts, constraint
from delegate.ops.shared import reductions
from delegate.ops.shared.convolution import most_kernel
from delegate.ops.shared.window_sums import WindowSumsPlan

TargetOf = Callable[[int, tuple[float, float], tuple[int, int]], Target]
"""A function from the number of pixels, and scales and zero points (int8) of input and output."""


@constraint(most=most_kernel)
def reduced_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height and width must be at most {most}."""
    _, height, width, _ = facts.features(node)[0].shape
    return f"they are {height} x {width}" if max(height, width) > most_kernel(facts.chip) else None


RULES = (*reductions.RULES, reduced_sides_in_range)


def plan(planning: Planning, operation: Operation, target_of: TargetOf) -> WindowSumsPlan:
    """Raises LoweringError."""
    source, target = planning.tensor(operation.operands[0]), planning.tensor(operation.result)
    count = source.view.height * source.view.width
    zero_points = source.zero_point, target.zero_point
    pipeline = requantize_image(
        operation.node.index,
        target_of(count, (source.scale, target.scale), zero_points),
        has_ties_away=ties_away(planning.chip, TaskKind.DEPTHWISE, RECORD),
        rounds_in_bn=rounds_twice(planning.chip, TaskKind.DEPTHWISE, per_channel=False),
    )
    stages = {count: (-source.zero_point * count, pipeline)}
    sums = WindowSums(reductions.pooled_image(source.view), stages)
    return WindowSumsPlan(planning, operation, sums)
