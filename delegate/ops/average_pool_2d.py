"""AVERAGE_POOL_2D: sums by a convolution, divided by how many values the window holds."""

from __future__ import annotations

import math

from delegate.errors import LoweringError
from delegate.lower.legalize import RECORD, REGISTER, is_known, ties_away
from delegate.lower.numerics.image_sums import average
from delegate.lower.numerics.pipeline import Pipeline
from delegate.lower.numerics.tflite import activation_range
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.rules import AVERAGE_IS_EQUAL
from delegate.lower.task import TaskKind
from delegate.model.graph import Node
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import pooling
from delegate.ops.shared.convolution import most_kernel, most_stride
from delegate.ops.shared.pooling import WindowSums, counts, plan_window_sums


@constraint(most=most_kernel)
def summed_window_in_range(facts: GraphFacts, node: Node) -> str | None:
    """The window must have at most {most} rows and columns."""
    o = pooling.pool_options(node)
    sides = o.filter_h, o.filter_w
    return f"it is {sides[0]} x {sides[1]}" if max(sides) > most_kernel(facts.chip) else None


def plan(planning: Planning, operation: Operation) -> Plan:
    """Raises LoweringError where an average is not equal for some sum."""
    graph, node = planning.graph, operation.node
    target = planning.tensor(operation.result)
    clamp = activation_range(pooling.pool_options(node).activation, target.scale, target.zero_point)
    offset = graph.tensor(operation.result).dtype.element.offset
    windows = pooling.pooling_of(graph, node)
    stages: dict[int, tuple[int, Pipeline]] = {}
    chip, kind = planning.chip, TaskKind.DEPTHWISE
    has_register = is_known(chip, kind, REGISTER)
    known = has_register and ties_away(chip, kind, RECORD), not has_register
    for count in sorted(counts(windows)):
        found = average(count, offset, clamp, *known)
        if found is None:
            problem = f"no setting is, of {count} values between {clamp[0]} and {clamp[1]}"
            raise LoweringError(node.index, AVERAGE_IS_EQUAL, problem)
        stages[count] = offset * count, found
    sums = WindowSums(windows, stages)
    return plan_window_sums(planning, operation, sums)


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
