"""GELU: a table. In fp16 what it is below RELU: the table of that is subtracted from RELU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared import functions
from delegate.ops.shared.functions import RULES, float_function

if TYPE_CHECKING:
    from delegate.lower.half.curves import Curve

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


_HALF_UNITS = 3800.0
"""The steps of the tables' index per unit of the number: they reach to 4.31, where 3.6e-5 are left
of what GELU is below RELU, half of what half a unit of the index makes at the steepest place.
"""
_HALF_SLOPE = 0.5
"""At 0, on both sides of a bend, where there is an entry."""
_HALF_BEND = 0.799
"""2 / sqrt(2 pi), rounded up: the largest second derivative, at 0; the approximation's is equal."""
_MOST_EXPONENT = 700.0
"""exp of more is no float64."""


def half_curve(*, approximate: bool) -> Curve:
    """Return what GELU is below RELU, as the tables hold it in fp16."""
    from delegate.lower.half.curves import Curve

    def gap(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        size = np.abs(x)
        if approximate:
            inner = math.sqrt(2 / math.pi) * (size + 0.044715 * size**3)
            return np.asarray(size / (1 + np.exp(np.minimum(2 * inner, _MOST_EXPONENT))))
        half = np.array([math.erfc(value * math.sqrt(0.5)) / 2 for value in size.ravel()])
        return np.asarray(size * half.reshape(size.shape))

    return Curve(gap, _HALF_SLOPE, _HALF_BEND, (0.0, 0.0), _HALF_UNITS)


def half(operator: Operator) -> Operator:
    """The same in fp16."""
    from delegate.ops.shared.half_maps import below_relu_record

    def curve(node: Node) -> Curve:
        return half_curve(approximate=node.known_options(GeluOptions).approximate)

    return below_relu_record(operator, curve)


OPERATOR = Operator(
    name="GELU",
    options=GeluOptions,
    inputs=(Role.FEATURE,),
    function=gelu,
    rules=RULES,
    half=half,
)
