"""MINIMUM: the smaller raw value of two feature maps, or of one and a constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Graph, Node
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared import half_records
from delegate.ops.shared.two_values import RULES, extremum_plan


def plan(planning: Planning, operation: Operation) -> Plan:
    return extremum_plan(planning, operation, EwOperation.MIN)


def smaller(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    return np.minimum(*operands)


OPERATOR = Operator(
    name="MINIMUM",
    inputs=(Role.OPERAND, Role.OPERAND),
    plan=plan,
    function=smaller,
    rules=RULES,
    half=half_records.pair(EwOperation.MIN),
    needs=("element_wise_alone", "ew_addition"),
)
