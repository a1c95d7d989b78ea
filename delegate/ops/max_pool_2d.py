"""MAX_POOL_2D: maxima of the map and itself shifted, in the DPU."""

from __future__ import annotations

from delegate.chip.element import Element
from delegate.lower.numerics.tflite import activation_range
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.tiling.pooling import PooledAxis
from delegate.model.graph import Graph, Node
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared.common import no_activation
from delegate.ops.shared.max_pool import plan_max_pool
from delegate.ops.shared.pooling import (
    GEOMETRY,
    RULES,
    PoolOptions,
    pool_options,
    pooling_of,
    shapes,
)


def plan(planning: Planning, operation: Operation) -> Plan:
    graph, node = planning.graph, operation.node
    target = planning.tensor(operation.result)
    clamp = activation_range(pool_options(node).activation, target.scale, target.zero_point)
    gaps = gaps_of(graph, node)
    return plan_max_pool(planning, operation, pooling_of(graph, node), gaps, clamp)


def gaps_of(graph: Graph, node: Node) -> tuple[int, int]:
    """How far apart the points of the window may lie, as its input may hold maxima already."""
    found = (n for n in graph.nodes if n.op == node.op and node.inputs[0] in n.outputs)
    before = next(found, None)
    if before is None:
        return 1, 1
    ours, theirs = pooling_of(graph, node), pooling_of(graph, before)
    return _gap(ours.rows, theirs.rows), _gap(ours.columns, theirs.columns)


def _gap(side: PooledAxis, before: PooledAxis) -> int:
    """Results of ``before``, which reach to both sides alike, cover what lies between points that
    are no further apart than this reach and one more: also at a border, where the point beyond it
    is missing and the next one lies less than a gap away. One of them has to lie in the image.
    """
    is_even = before.stride == 1 and before.before == before.after == before.kernel // 2
    if not is_even:
        return 1
    most = min(before.before + 1, side.size)
    return max(gap for gap in range(1, most + 1) if (side.kernel - 1) % gap == 0)


def _are_pairs(graph: Graph, node: Node) -> bool:
    """Whether windows are 2 x 2 pixels side by side, of an even width."""
    windows, options = pooling_of(graph, node), pool_options(node)
    sides = windows.rows, windows.columns
    are_two = all((s.kernel, s.padding) == (2, 0) and s.stride in (2, 1) for s in sides)
    strides = options.stride_h, options.stride_w
    return are_two and strides == (2, 2) and windows.columns.size % 2 == 0


@constraint()
def half_border_inside(facts: GraphFacts, node: Node) -> str | None:
    """In fp16 no more rows or columns may be added on a side than the image has."""
    windows = pooling_of(facts.graph, node)
    for side in (windows.rows, windows.columns):
        if max(side.before, side.after) > side.size:
            return f"{side.before} and {side.after} are added to {side.size}"
    return None


def half(operator: Operator) -> Operator:
    """In fp16."""
    from delegate.lower.half.max_pool import HalfMaxPoolPlan
    from delegate.ops.shared import half, half_errors
    from delegate.ops.shared.half_moves import exactly

    def maxima(planning: Planning, operation: Operation) -> Plan:
        windows = pooling_of(planning.graph, operation.node)
        return plan_max_pool(planning, operation, windows, element=Element.FP16)

    def plan(planning: Planning, operation: Operation) -> Plan:
        graph, node = planning.graph, operation.node
        if _are_pairs(graph, node) and not planning.chip.has_pooling:
            return HalfMaxPoolPlan(planning, operation)
        return exactly(maxima)(planning, operation)

    rules = (*half.FIRST, *GEOMETRY, half_border_inside, no_activation)
    return half.half_record(operator, plan, rules, half_errors.BY_CHANNEL)


OPERATOR = Operator(
    name="MAX_POOL_2D",
    options=PoolOptions,
    inputs=(Role.FEATURE,),
    plan=plan,
    shapes=shapes,
    rules=RULES,
    half=half,
)
