"""Records in fp16 of operators that bring elements elsewhere: the tasks are those of 8 bits, which
move bytes, of which an fp16 has two. Exact, infinities and NaN included. Imported for float models
only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from delegate.lower.lowered import EXACT
from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Graph, Node
from delegate.ops.operator import Constraint, Ends, Operator, RangeOf, Ranges, Role
from delegate.ops.shared import common, half, half_ranges

FIRST = tuple(common.no_activation if rule is half.half_activation else rule for rule in half.FIRST)


def exactly(
    plan: Callable[[Planning, Operation], Plan],
) -> Callable[[Planning, Operation], Plan]:
    """Return ``plan``, which moves bytes, with its bound."""

    def made(planning: Planning, operation: Operation) -> Plan:
        return plan(planning, operation).within(EXACT)

    return made


def moving_record(
    operator: Operator, rules: tuple[Constraint, ...], ranges: Ranges = half_ranges.of_means
) -> Operator:
    """Return ``operator``, whose tasks bring bytes elsewhere, for float32 tensors."""
    assert operator.plan is not None, operator.name
    rules = (*half.FIRST, *rules)
    return half.half_record(operator, exactly(operator.plan), rules, ranges)


def alias_record(operator: Operator, rules: tuple[Constraint, ...]) -> Operator:
    """Return ``operator``, whose tensors lie in one another where they can, for float32 tensors."""

    def ranges(_: Graph, node: Node, range_of: RangeOf) -> Ends:
        """Return the range of values of all features."""
        low, high = np.transpose([range_of(tensor) for tensor in operator.feature_inputs(node)])
        return np.array([low.min()]), np.array([high.max()])

    return replace(
        operator,
        # Constants beside computed parts are packed as int8 alone.
        inputs=tuple(Role.FEATURE if r is Role.OPERAND else r for r in operator.inputs),
        rules=(*FIRST, *rules),
        ranges=ranges,
        plan=None if operator.plan is None else exactly(operator.plan),
        half=None,
    )
