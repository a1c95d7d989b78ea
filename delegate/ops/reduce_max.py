"""REDUCE_MAX over the pixels of images: the maximum of a window as large as the image."""

from __future__ import annotations

from delegate.lower.operation import Operation, Plan, Planning
from delegate.ops.max_pool_2d import plan_max_pool
from delegate.ops.operator import Operator, Role
from delegate.ops.shared import half_records, reductions
from delegate.ops.shared.common import keeps_quantization
from delegate.ops.shared.pooling import pooled_sides_in_range


def plan(planning: Planning, operation: Operation) -> Plan:
    source = planning.tensor(operation.operands[0])
    windows = reductions.pooled_image(source.view)
    return plan_max_pool(planning, operation, windows, element=source.element)


OPERATOR = Operator(
    name="REDUCE_MAX",
    options=reductions.ReducerOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    plan=plan,
    shapes=reductions.shapes,
    rules=(*reductions.RULES, keeps_quantization, pooled_sides_in_range),
    half=half_records.moving((*reductions.GEOMETRY, pooled_sides_in_range)),
)
