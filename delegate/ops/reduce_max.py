"""REDUCE_MAX over the pixels of images, the maximum of a window as large as the image, or over
channels.
"""

from __future__ import annotations

from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Node
from delegate.ops.max_pool_2d import plan_max_pool
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import half_records, reductions
from delegate.ops.shared.common import keeps_quantization
from delegate.ops.shared.pooling import most_side, pooled_sides_in_range
from delegate.ops.shared.row_maxima import plan_row_maxima


def plan(planning: Planning, operation: Operation) -> Plan:
    """Raises LoweringError."""
    if reductions.reduces_channels(planning.graph, operation.node):
        return plan_row_maxima(planning, operation)
    source = planning.tensor(operation.operands[0])
    windows = reductions.pooled_image(source.view)
    return plan_max_pool(planning, operation, windows, element=source.element)


@constraint(most=most_side)
def maxima_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height, width and channels must be at most {most}, unless the channels are reduced."""
    is_of_channels = reductions.reduces_channels(facts.graph, node)
    return None if is_of_channels else pooled_sides_in_range.check(facts, node)


OPERATOR = Operator(
    name="REDUCE_MAX",
    options=reductions.ReducerOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    plan=plan,
    shapes=reductions.shapes,
    rules=(*reductions.RULES, maxima_sides_in_range, keeps_quantization),
    half=half_records.moving((*reductions.GEOMETRY, maxima_sides_in_range)),
)
