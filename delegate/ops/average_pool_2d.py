"""AVERAGE_POOL_2D: sums by a convolution, divided by how many values the window holds."""

from __future__ import annotations

import math

from delegate.errors import LoweringError
from delegate.lower.legalize import RECORD, REGISTER, is_known, ties_away
from delegate.lower.memory.tensors import view_of
from delegate.lower.numerics.image_sums import average
from delegate.lower.numerics.pipeline import Pipeline
from delegate.lower.numerics.tflite import activation_range
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.rules import AVERAGE_IS_EQUAL, WITHIN_ONE_LSB
from delegate.lower.task import TaskKind
from delegate.model.graph import Node
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import pooling, reductions
from delegate.ops.shared.convolution import most_kernel, most_stride
from delegate.ops.shared.dense_sums import longest_strip, most_strips
from delegate.ops.shared.pooling import WindowSums, counts, plan_window_sums


@constraint(most=most_kernel, strip=longest_strip, strips=most_strips)
def summed_window_in_range(facts: GraphFacts, node: Node) -> str | None:
    """The window must have at most {most} rows and columns, or be an image that MEAN takes, of up
    to {strips} strips of up to {strip} pixels.
    """
    windows = pooling.pooling_of(facts.graph, node)
    sides = windows.rows.kernel, windows.columns.kernel
    if max(sides) <= most_kernel(facts.chip):
        return None
    if windows.is_whole:
        image = view_of(facts.features(node)[0].shape)
        return reductions.why_not_summed(facts.chip, image)
    return f"it is {sides[0]} x {sides[1]}"


def plan(planning: Planning, operation: Operation) -> Plan:
    """Raises LoweringError where an average is not equal for some sum, or that of an image larger
    than a window not within one step, as MEAN's.
    """
    chip, graph, node = planning.chip, planning.graph, operation.node
    target = planning.tensor(operation.result)
    clamp = activation_range(pooling.pool_options(node).activation, target.scale, target.zero_point)
    offset = graph.tensor(operation.result).dtype.element.offset
    windows = pooling.pooling_of(graph, node)
    is_large = max(windows.rows.kernel, windows.columns.kernel) > most_kernel(chip)
    image = planning.tensor(operation.operands[0]).view
    kind = reductions.kind_of_sum(chip, image) if is_large else TaskKind.DEPTHWISE
    has_register = is_known(chip, kind, REGISTER)
    known = has_register and ties_away(chip, kind, RECORD), not has_register
    stages: dict[int, tuple[int, Pipeline]] = {}
    for count in sorted(counts(windows)):
        found = average(count, offset, clamp, *known, within_one_lsb=is_large)
        if found is None:
            problem = f"no setting is, of {count} values between {clamp[0]} and {clamp[1]}"
            rule = WITHIN_ONE_LSB if is_large else AVERAGE_IS_EQUAL
            raise LoweringError(node.index, rule, problem)
        stages[count] = offset * count, found
    if is_large:
        return reductions.plan_image_sum(planning, operation, stages[image.pixels])
    return plan_window_sums(planning, operation, WindowSums(windows, stages))


@constraint(most=most_kernel, stride=most_stride)
def half_window_in_range(facts: GraphFacts, node: Node) -> str | None:
    """A window whose mean is taken in fp16 must have at most {most} rows and columns, or lie within
    the image everywhere and be made of such windows by factors of up to {stride}, which its stride
    contains.
    """
    from delegate.ops.shared.half_means import steps

    windows = pooling.pooling_of(facts.graph, node)
    sides = windows.rows, windows.columns
    found = [steps(facts.chip, side) for side in sides]
    most = 1 if windows.is_padded else math.inf
    if all(step is not None and len(step) <= most for step in found):
        return None
    return f"it is {sides[0].kernel} x {sides[1].kernel}"


def half(operator: Operator) -> Operator:
    """Means in fp16."""
    from delegate.ops.shared import half, half_means, half_ranges

    def plan(planning: Planning, operation: Operation) -> Plan:
        windows = pooling.pooling_of(planning.graph, operation.node)
        activation = pooling.pool_options(operation.node).activation
        return half_means.plan_mean(planning, operation, windows, activation)

    rules = (*half.FIRST, *pooling.GEOMETRY, half_window_in_range)
    return half.half_record(operator, plan, rules, half_ranges.of_means)


OPERATOR = Operator(
    name="AVERAGE_POOL_2D",
    options=pooling.PoolOptions,
    inputs=(Role.FEATURE,),
    plan=plan,
    shapes=pooling.shapes,
    rules=(*pooling.RULES, summed_window_in_range),
    half=half,
)
