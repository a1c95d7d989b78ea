"""SUB where both operands follow from one value: a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delegate.model.graph import Activation, Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared.functions import RULES, activated, function_of_one_value, weighted_sum


@dataclass(frozen=True, slots=True)
class SubOptions(Options):
    UNION_TYPE = 28

    activation: Activation = option(FieldKind.ACTIVATION, slot=0, offset=0)


def difference(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    options = node.options_as(SubOptions)
    assert options is not None  # options_known ran before
    total = weighted_sum(graph, node, operands, (1, -1))
    return activated(graph, node, total, options.activation)


OPERATOR = Operator(
    name="SUB",
    options=SubOptions,
    inputs=(Role.OPERAND, Role.OPERAND),
    function=difference,
    rules=(*RULES, function_of_one_value),
)
