"""QUANTIZE from an 8-bit type to an 8-bit type: a table."""

from __future__ import annotations

from collections.abc import Sequence

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared.common import same_feature_types
from delegate.ops.shared.fixed_point import multiplier_of, multiply
from delegate.ops.shared.functions import RULES, scale_of


def quantize(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    """The scales are divided as float64."""
    (source, source_zero), (target, target_zero) = (
        scale_of(graph, t) for t in (node.inputs[0], node.outputs[0])
    )
    return multiply(operands[0] - source_zero, multiplier_of(source / target)) + target_zero


OPERATOR = Operator(
    name="QUANTIZE",
    inputs=(Role.FEATURE,),
    function=quantize,
    rules=tuple(rule for rule in RULES if rule is not same_feature_types),
)
