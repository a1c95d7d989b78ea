"""CONCATENATION: its inputs lie side by side in its output."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Activation, Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Lowering, Movement, Operator, Role, Shape
from delegate.ops.shared import aliases
from delegate.ops.shared.links import Link, axis_of, parts_along
from delegate.ops.shared.moving import join_plan


@dataclass(frozen=True, slots=True)
class ConcatenationOptions(Options):
    UNION_TYPE = 10

    axis: int = option(FieldKind.INT32, slot=0, offset=0)
    activation: Activation = option(FieldKind.ACTIVATION, slot=1, offset=4)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    first, *others = (graph.tensor(t).shape for t in node.inputs)
    axis = axis_of(_axis(node), first)
    size = first[axis] + sum(other[axis] for other in others)
    return ((*first[:axis], size, *first[axis + 1 :]),)


def links(graph: Graph, node: Node) -> tuple[Link, ...]:
    return parts_along(graph, node.outputs[0], node.inputs, _axis(node))


def _axis(node: Node) -> int:
    return node.known_options(ConcatenationOptions).axis


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
    shapes=shapes,
    rules=(*aliases.FIRST, *aliases.JOINS),
)
