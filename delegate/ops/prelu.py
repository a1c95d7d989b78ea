"""PRELU with one slope for all channels: a table."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from delegate.model.graph import Graph, Node
from delegate.ops.operator import GraphFacts, Operator, Role, Values, constraint, named
from delegate.ops.shared.fixed_point import float32_product, multiplier_of, multiply
from delegate.ops.shared.functions import RULES, requantized, scale_of


@constraint()
def one_slope(facts: GraphFacts, node: Node) -> str | None:
    """The slope must be a constant of one value, and the input none."""
    feature, slope = facts.inputs(node)
    if feature.constant is None and slope.constant is not None and slope.constant.size == 1:
        return None
    return f"{named(slope)} is {list(slope.shape)}"


def prelu(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    (source, source_zero), (slope, slope_zero) = (scale_of(graph, t) for t in node.inputs)
    target, target_zero = scale_of(graph, node.outputs[0])
    values = operands[0] - source_zero
    multiplier = multiplier_of(float32_product(source, slope, over=target))
    below = multiply(np.minimum(values, 0) * (operands[1] - slope_zero), multiplier) + target_zero
    return np.where(values >= 0, requantized(graph, node, np.maximum(values, 0)), below)


@functools.cache
def half() -> Operator:
    """One slope, or one per channel, in fp16."""
    from delegate.ops.shared.half_maps import slopes_record

    return slopes_record(OPERATOR)


OPERATOR = Operator(
    name="PRELU",
    inputs=(Role.OPERAND, Role.OPERAND),
    function=prelu,
    rules=(*RULES, one_slope),
    half=half,
)
