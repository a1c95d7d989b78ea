"""LEAKY_RELU, also of float32 between 8-bit tensors: a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, Values, constraint
from delegate.ops.shared.fixed_point import float32_product, multiplier_of, multiply
from delegate.ops.shared.functions import RULES, requantized, scales_of
from delegate.ops.shared.real_functions import in_float


@dataclass(frozen=True, slots=True)
class LeakyReluOptions(Options):
    UNION_TYPE = 75

    alpha: float = option(FieldKind.FLOAT32, slot=0, offset=0)


def _alpha(node: Node) -> float:
    return node.known_options(LeakyReluOptions).alpha


@constraint()
def slope_not_negative(facts: GraphFacts, node: Node) -> str | None:
    """The slope must be finite and at least 0."""
    alpha = _alpha(node)
    return None if math.isfinite(alpha) and alpha >= 0 else f"it is {alpha}"


def leaky(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    (source, source_zero), (target, target_zero) = scales_of(graph, node)
    values = operands[0] - source_zero
    slope = multiplier_of(float32_product(source, _alpha(node), over=target))
    below = multiply(np.minimum(values, 0), slope) + target_zero
    return np.where(values >= 0, requantized(graph, node, np.maximum(values, 0)), below)


def _of_reals(node: Node, given: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.where(given[0] > 0, given[0], given[0] * np.float32(_alpha(node)))


@constraint(most=65504)
def half_slope(facts: GraphFacts, node: Node) -> str | None:
    """The slope in fp16 must be from -{most} to {most}."""
    alpha = _alpha(node)
    return None if abs(alpha) <= np.finfo(np.float16).max else f"it is {alpha}"


def half(operator: Operator) -> Operator:
    """One slope in fp16."""
    from delegate.ops.shared import half_maps

    def slopes(_: Graph, node: Node) -> npt.NDArray[np.float32]:
        return np.array([_alpha(node)], np.float32)

    rules = (half_maps.computed_same_shape, half_slope)
    return half_maps.slopes_record(operator, slopes, rules)


OPERATOR = Operator(
    name="LEAKY_RELU",
    options=LeakyReluOptions,
    inputs=(Role.FEATURE,),
    function=leaky,
    rules=(*RULES, slope_not_negative),
    half=half,
    real_form=in_float(_of_reals),
)
