"""MAX_POOL_2D: maxima of the map and itself shifted, in the DPU."""

from __future__ import annotations

from delegate.chip.chip import Primitive
from delegate.chip.element import Element
from delegate.lower.max_pool import half_maxima, plan_half_pairs
from delegate.lower.max_pool_sums import ALL_VALUES, linear_maxima
from delegate.lower.numerics.tflite import activation_range
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.pooling_unit import takes, unit_maxima
from delegate.lower.tiling.geometry import Axis, Pooling
from delegate.model.graph import Graph, Node
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared.common import no_activation
from delegate.ops.shared.moving import move_plan
from delegate.ops.shared.pooling import (
    GEOMETRY,
    RULES,
    PoolOptions,
    pool_options,
    pooling_of,
    shapes,
)


def plan_max_pool(
    planning: Planning,
    operation: Operation,
    pooling: Pooling,
    gaps: tuple[int, int] = (1, 1),
    clamp: tuple[int, int] = ALL_VALUES,
    element: Element = Element.INT8,
) -> Plan:
    """Return the plan of maxima: by the PPU where it may be taken, else by the DPU, which reads
    rows with gaps between them in fp16 alone.
    """
    is_narrow = operation.result in planning.joined
    chip, channels = planning.chip, planning.tensor(operation.result).view.channels
    if takes(chip, pooling, clamp, element):
        move = unit_maxima(chip, pooling, element, channels, is_narrow=is_narrow)
    elif element is Element.FP16:
        move = half_maxima(chip, pooling, gaps, channels, is_narrow=is_narrow)
    else:
        move = linear_maxima(chip, pooling, gaps, clamp, channels, is_narrow=is_narrow)
    return move_plan(planning, operation, move, as_bytes=False)


def plan(planning: Planning, operation: Operation) -> Plan:
    graph, node = planning.graph, operation.node
    target = planning.tensor(operation.result)
    clamp = activation_range(pool_options(node).activation, target.scale, target.zero_point)
    gaps = gaps_of(graph, node)
    return plan_max_pool(planning, operation, pooling_of(graph, node), gaps, clamp)


def gaps_of(graph: Graph, node: Node) -> tuple[int, int]:
    """Return how far apart the points of the window may lie, as its input may hold maxima
    already.
    """
    found = (n for n in graph.nodes if n.op == node.op and node.inputs[0] in n.outputs)
    before = next(found, None)
    if before is None:
        return 1, 1
    ours, theirs = pooling_of(graph, node), pooling_of(graph, before)
    return _gap(ours.rows, theirs.rows), _gap(ours.columns, theirs.columns)


def _gap(side: Axis, before: Axis) -> int:
    """Results of ``before``, which reach to both sides alike, cover what lies between points that
    are no further apart than this reach and one more: also at a border, where the point beyond it
    is missing and the next one lies less than a gap away. One of them has to lie in the image.
    """
    is_even = before.stride == 1 and before.pad == before.pad_after == before.kernel // 2
    if not is_even:
        return 1
    most = min(before.pad + 1, side.input_size)
    return max(gap for gap in range(1, most + 1) if (side.kernel - 1) % gap == 0)


def _are_pairs(graph: Graph, node: Node) -> bool:
    """Return whether windows are 2 x 2 pixels side by side, of an even width."""
    windows, options = pooling_of(graph, node), pool_options(node)
    sides = windows.rows, windows.columns
    are_two = all((s.kernel, s.padding) == (2, 0) and s.stride in (2, 1) for s in sides)
    strides = options.stride_h, options.stride_w
    return are_two and strides == (2, 2) and windows.columns.input_size % 2 == 0


@constraint()
def half_border_inside(facts: GraphFacts, node: Node) -> str | None:
    """In fp16 no more rows or columns may be added on a side than the image has."""
    windows = pooling_of(facts.graph, node)
    for side in (windows.rows, windows.columns):
        if max(side.pad, side.pad_after) > side.input_size:
            return f"{side.pad} and {side.pad_after} are added to {side.input_size}"
    return None


def half(operator: Operator) -> Operator:
    """Return the operator in fp16."""
    from delegate.ops.shared import half, half_ranges
    from delegate.ops.shared.half import exactly

    def maxima(planning: Planning, operation: Operation) -> Plan:
        windows = pooling_of(planning.graph, operation.node)
        return plan_max_pool(planning, operation, windows, element=Element.FP16)

    def plan(planning: Planning, operation: Operation) -> Plan:
        graph, node = planning.graph, operation.node
        if _are_pairs(graph, node) and Primitive.POOLING in planning.chip.lacks:
            return plan_half_pairs(planning, operation)
        return exactly(maxima)(planning, operation)

    rules = (*half.FIRST, *GEOMETRY, half_border_inside, no_activation)
    return half.half_record(operator, plan, rules, half_ranges.of_means)


OPERATOR = Operator(
    name="MAX_POOL_2D",
    options=PoolOptions,
    inputs=(Role.FEATURE,),
    plan=plan,
    shapes=shapes,
    rules=RULES,
    half=half,
)
