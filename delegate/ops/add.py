"""ADD: two feature maps, or one and a constant, in the DPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Activation, Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared import half_records
from delegate.ops.shared.functions import activated, weighted_sum
from delegate.ops.shared.two_values import RULES, sum_plan


@dataclass(frozen=True, slots=True)
class AddOptions(Options):
    UNION_TYPE = 11

    activation: Activation = option(FieldKind.ACTIVATION, slot=0, offset=0)


def plan(planning: Planning, operation: Operation) -> Plan:
    options = operation.node.known_options(AddOptions)
    return sum_plan(planning, operation, options.activation, (1, 1))


def add(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    """Of a value with a constant or a function of it: what the kernels give."""
    options = node.known_options(AddOptions)
    total = weighted_sum(graph, node, operands, (1, 1))
    return activated(graph, node, total, options.activation)


OPERATOR = Operator(
    name="ADD",
    options=AddOptions,
    plan=plan,
    function=add,
    inputs=(Role.OPERAND, Role.OPERAND),
    rules=RULES,
    half=half_records.pair(EwOperation.ADD),
    needs=("element_wise_alone", "ew_addition"),
)
