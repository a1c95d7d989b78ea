"""SUB: of two feature maps, or one and a constant, in the DPU; of one value a table."""

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

SIGNS = (1, -1)


@dataclass(frozen=True, slots=True)
class SubOptions(Options):
    UNION_TYPE = 28

    activation: Activation = option(FieldKind.ACTIVATION, slot=0, offset=0)


def plan(planning: Planning, operation: Operation) -> Plan:
    options = operation.node.known_options(SubOptions)
    return sum_plan(planning, operation, options.activation, SIGNS)


def difference(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    options = node.known_options(SubOptions)
    total = weighted_sum(graph, node, operands, SIGNS)
    return activated(graph, node, total, options.activation)


OPERATOR = Operator(
    name="SUB",
    options=SubOptions,
    inputs=(Role.OPERAND, Role.OPERAND),
    plan=plan,
    function=difference,
    rules=RULES,
    half=half_records.pair(EwOperation.SUBTRACT),
    needs=("element_wise_alone", "ew_addition"),
)
