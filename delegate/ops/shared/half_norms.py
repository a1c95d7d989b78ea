"""Records in fp16 of the nodes of layer normalisation that are none of others. Imported for float
models only.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from delegate.lower.half.bound import ROUNDED
from delegate.lower.half.curves import plan_half_map
from delegate.lower.half.stages import half_bits
from delegate.lower.lowered import EXACT, HalfBound
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.task import BnStage, Source, Stages
from delegate.model.graph import Graph, Node
from delegate.ops.operator import Ends, Operator, RangeOf, Role
from delegate.ops.shared import common, deviations, half
from delegate.ops.shared.half_deviations import DISTANCE, SQUARE, plan_deviation
from delegate.ops.shared.half_maps import RULES, meets
from delegate.ops.shared.half_rows import plan_spread_pair

_NEGATIVE: Final = Stages(bn=BnStage(mul=Source.REGISTER, mul_operand=half_bits(-1.0)))
_SQUARED: Final = HalfBound((1 + ROUNDED.relative) ** 3 - 1, absolute=ROUNDED.absolute)
"""A distance's rounding counts twice; a subnormal distance has none."""


def negative_record(operator: Operator) -> Operator:
    """Return the record of NEG."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        return plan_half_map(planning, operation, lambda _: _NEGATIVE, EXACT)

    def ranges(_: Graph, node: Node, range_of: RangeOf) -> Ends:
        low, high = range_of(node.inputs[0])
        return np.array([-high]), np.array([-low])

    return half.half_record(operator, plan, RULES, ranges)


def squares_record(operator: Operator) -> Operator:
    """Return the record of SQUARE and SQUARED_DIFFERENCE."""
    is_distance = len(operator.inputs) > 1

    def plan(planning: Planning, operation: Operation) -> Plan:
        if not is_distance:
            twice = replace(operation, operands=operation.operands * 2)
            return plan_half_map(planning, twice, lambda _: SQUARE, ROUNDED)
        return plan_spread_pair(planning, operation, (DISTANCE, SQUARE)).within(_SQUARED)

    def ranges(_: Graph, node: Node, range_of: RangeOf) -> Ends:
        first, second = (range_of(t) for t in (node.inputs * 2)[:2])
        if not is_distance:
            second = 0.0, 0.0
        most = max(abs(first[1] - second[0]), abs(second[1] - first[0]))
        return np.zeros(1), np.array([most**2])

    rules = (*half.FIRST, common.rank_in_range, meets) if is_distance else RULES
    return half.half_record(operator, plan, rules, ranges)


def root_record(operator: Operator) -> Operator:
    """Return the record of RSQRT, which stands for all nodes of a deviation: its inputs are then
    the pair and the constant.
    """

    def ranges(_: Graph, node: Node, range_of: RangeOf) -> Ends:
        least = range_of(node.inputs[0])[0]
        return np.zeros(1), np.array([1 / math.sqrt(least) if least > 0 else np.inf])

    rules = (*RULES, deviations.root_of_a_deviation)
    made = half.half_record(operator, plan_deviation, rules, ranges)
    inputs = (Role.FEATURE, Role.OPERAND, Role.NUMBERS)
    return replace(made, inputs=inputs, needed=1, whole=deviations.whole)
