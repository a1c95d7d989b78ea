"""MUL where both operands follow from one value: a table, as SiLU is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delegate.model.graph import Activation, Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared.fixed_point import float32_product, multiplier_of, multiply
from delegate.ops.shared.functions import RULES, activated, function_of_one_value, scale_of


@dataclass(frozen=True, slots=True)
class MulOptions(Options):
    UNION_TYPE = 21

    activation: Activation = option(FieldKind.ACTIVATION, slot=0, offset=0)


def product(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    options = node.options_as(MulOptions)
    assert options is not None
    (first, first_zero), (second, second_zero) = (scale_of(graph, t) for t in node.inputs)
    scale, zero = scale_of(graph, node.outputs[0])
    factors = (operands[0] - first_zero) * (operands[1] - second_zero)
    multiplier = multiplier_of(float32_product(first, second, over=scale))
    return activated(graph, node, multiply(factors, multiplier) + zero, options.activation)


OPERATOR = Operator(
    name="MUL",
    options=MulOptions,
    inputs=(Role.OPERAND, Role.OPERAND),
    function=product,
    rules=(*RULES, function_of_one_value),
)
