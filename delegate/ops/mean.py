"""MEAN over the pixels of images: sums by a convolution, requantised as the kernel does."""

from __future__ import annotations

import functools

from delegate.lower.memory.tensors import view_of
from delegate.lower.numerics.means import mean_target, requantize_mean
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.window_sums import WindowSums
from delegate.model.graph import Activation, Node
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import reductions
from delegate.ops.shared.convolution import most_kernel, most_stride
from delegate.ops.shared.window_sums import WindowSumsPlan


@constraint(most=most_kernel)
def reduced_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height and width must be at most {most}."""
    _, height, width, _ = facts.features(node)[0].shape
    return f"they are {height} x {width}" if max(height, width) > most_kernel(facts.chip) else None


def plan(planning: Planning, operation: Operation) -> WindowSumsPlan:
    """Raises LoweringError."""
    source, target = planning.tensor(operation.operands[0]), planning.tensor(operation.result)
    height, width = source.view.height, source.view.width
    count = height * width
    zero_points = source.zero_point, target.zero_point
    wanted = mean_target(count, (source.scale, target.scale), zero_points)
    has_ties_away = planning.chip.has("ties_away")
    pipeline = requantize_mean(
        operation.node.index,
        wanted,
        has_ties_away=has_ties_away,
        rounds_in_bn=planning.chip.knows("bn_multiplier"),
    )
    stages = {count: (-source.zero_point * count, pipeline)}
    sums = WindowSums(planning.chip, operation.node, reductions.pooled_image(source.view), stages)
    return WindowSumsPlan(planning, operation, sums)


@constraint(most=most_kernel, parts=most_stride)
def half_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height and width in fp16 must be at most {most}, but for factors up to {parts}."""
    from delegate.ops.shared.half_means import steps

    image = view_of(facts.features(node)[0].shape)
    windows = reductions.pooled_image(image)
    if all(steps(facts.chip, side) is not None for side in (windows.rows, windows.columns)):
        return None
    return f"they are {image.height} x {image.width}"


@functools.cache
def half() -> Operator:
    """The same in fp16."""
    from delegate.ops.shared import half, half_means, half_ranges

    def plan(planning: Planning, operation: Operation) -> Plan:
        windows = reductions.pooled_image(planning.tensor(operation.operands[0]).elements)
        return half_means.plan_mean(planning, operation, windows, Activation.NONE)

    rules = (*half.FIRST, *reductions.GEOMETRY, half_sides_in_range)
    return half.half_record(OPERATOR, plan, rules, ranges=half_ranges.of_means)


OPERATOR = Operator(
    name="MEAN",
    options=reductions.ReducerOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    plan=plan,
    shapes=reductions.shapes,
    rules=(*reductions.RULES, reduced_sides_in_range),
    half=half,
    needs=("convolution", "depthwise_convolution"),
)
