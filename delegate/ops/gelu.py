"""GELU: a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from delegate.model.graph import Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared import functions
from delegate.ops.shared.functions import RULES, float_function

_ROOT = np.float32(math.sqrt(2 / math.pi))
_HALF = np.float32(0.5)


@dataclass(frozen=True, slots=True)
class GeluOptions(Options):
    UNION_TYPE = 116

    approximate: bool = option(FieldKind.BOOL, slot=0, offset=0)


def exact(value: float) -> float:
    """``x / 2 * erfc(-x / sqrt(2))`` in float32."""
    x = np.float32(value)
    return float(_HALF * x * np.float32(functions.erfc(float(x * np.float32(-math.sqrt(0.5))))))


def by_tanh(value: float) -> float:
    """``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`` in float32."""
    x = np.float32(value)
    with np.errstate(over="ignore"):
        inner = _ROOT * (x + np.float32(0.044715) * x * x * x)
    return float(_HALF * x * (np.float32(1) + np.float32(functions.tanh(float(inner)))))


def gelu(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    options = node.known_options(GeluOptions)
    return float_function(by_tanh if options.approximate else exact)(graph, node, operands)


OPERATOR = Operator(
    name="GELU", options=GeluOptions, inputs=(Role.FEATURE,), function=gelu, rules=RULES
)
