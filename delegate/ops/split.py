"""SPLIT: equal parts of its input along a constant axis, which is the first input."""

from __future__ import annotations

from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Graph, Node
from delegate.ops.operator import Lowering, Movement, Operator, Role
from delegate.ops.shared import aliases, common
from delegate.ops.shared.links import Link, integers, parts_along
from delegate.ops.shared.moving import cut_plan


def links(graph: Graph, node: Node) -> tuple[Link, ...]:
    axis, whole = node.inputs
    return parts_along(graph, whole, node.outputs, integers(graph, axis, 1)[0])


def plan(planning: Planning, operation: Operation) -> Plan:
    return cut_plan(planning, operation, links(planning.graph, operation.node))


OPERATOR = Operator(
    name="SPLIT",
    inputs=(Role.NUMBERS, Role.FEATURE),
    most_outputs=common.MOST_TENSORS,
    lowering=Lowering.ALIAS,
    movement=Movement.CUT,
    links=links,
    plan=plan,
    rules=(*aliases.FIRST, *aliases.CUTS),
)
