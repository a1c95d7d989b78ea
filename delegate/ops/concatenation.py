"""CONCATENATION: its inputs lie side by side in its output."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Activation, Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Lowering, Movement, Operator, Role
from delegate.ops.shared import aliases
from delegate.ops.shared.links import Link, parts_along
from delegate.ops.shared.moving import join_plan


@dataclass(frozen=True, slots=True)
class ConcatenationOptions(Options):
    UNION_TYPE = 10

    axis: int = option(FieldKind.INT32, slot=0, offset=0)
    activation: Activation = option(FieldKind.ACTIVATION, slot=1, offset=4)


def links(graph: Graph, node: Node) -> tuple[Link, ...]:
    options = node.options_as(ConcatenationOptions)
    assert options is not None  # options_known ran before
    return parts_along(graph, node.outputs[0], node.inputs, options.axis)


def plan(planning: Planning, operation: Operation) -> Plan:
    return join_plan(planning, operation, links(planning.graph, operation.node))


OPERATOR = Operator(
    name="CONCATENATION",
    options=ConcatenationOptions,
    inputs=(Role.FEATURE,),
    repeats=True,
    needed=1,
    lowering=Lowering.ALIAS,
    movement=Movement.JOIN,
    links=links,
    plan=plan,
    rules=(*aliases.FIRST, *aliases.JOINS),
)
