"""MEAN over the pixels of images: sums by a convolution, requantised as the kernel does."""

from __future__ import annotations

from delegate.lower.memory.tensors import view_of
from delegate.lower.numerics.image_sums import mean_target
from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Activation, Node
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import reductions
from delegate.ops.shared.convolution import most_kernel, most_stride


def plan(planning: Planning, operation: Operation) -> Plan:
    """Raises LoweringError."""
    return reductions.plan_sum(planning, operation, mean_target)


@constraint(most=most_kernel, parts=most_stride)
def half_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height and width in fp16 must be at most {most}, but for factors up to {parts}, unless the
    channels are what is reduced.
    """
    from delegate.ops.shared.half_means import steps

    if reductions.reduces_channels(facts.graph, node):
        return None
    image = view_of(facts.features(node)[0].shape)
    windows = reductions.pooled_image(image)
    if all(steps(facts.chip, side) is not None for side in (windows.rows, windows.columns)):
        return None
    return f"they are {image.height} x {image.width}"


def half(operator: Operator) -> Operator:
    """The same in fp16."""
    from delegate.ops.shared import half, half_means, half_ranges, half_rows

    def plan(planning: Planning, operation: Operation) -> Plan:
        if reductions.reduces_channels(planning.graph, operation.node):
            return half_rows.plan_row_mean(planning, operation)
        windows = reductions.pooled_image(planning.tensor(operation.operands[0]).elements)
        return half_means.plan_mean(planning, operation, windows, Activation.NONE)

    rules = (*half.FIRST, *reductions.GEOMETRY, half_sides_in_range)
    return half.half_record(operator, plan, rules, half_ranges.of_means)


OPERATOR = Operator(
    name="MEAN",
    options=reductions.ReducerOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    plan=plan,
    shapes=reductions.shapes,
    rules=reductions.SUM_RULES,
    half=half,
)
