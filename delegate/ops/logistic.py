"""LOGISTIC: a table."""

from __future__ import annotations

import numpy as np

from delegate.model.graph import Node
from delegate.ops.operator import GraphFacts, Operator, Role, constraint, named
from delegate.ops.shared import float32
from delegate.ops.shared.common import TYPE_RANGES
from delegate.ops.shared.functions import RULES, float_function

OUTPUT_SCALE = 1 / 256

_LEAST_EXPONENT = -88.0
"""exp of more than its negative is no float32."""


@constraint(scale=OUTPUT_SCALE)
def logistic_output_scale(facts: GraphFacts, node: Node) -> str | None:
    """The output's scale must be 1/256 and its zero point the least value, as the runtime
    demands.
    """
    output = facts.outputs(node)[0]
    assert output.quantization is not None
    found = output.quantization.scale, output.quantization.zero_point
    if found == (OUTPUT_SCALE, TYPE_RANGES[output.dtype][0]):
        return None
    return f"{named(output)} has the scale {found[0]} and the zero point {found[1]}"


def logistic(value: float) -> float:
    """1 / (1 + exp(-value)) in float32."""
    if value < _LEAST_EXPONENT:
        return 0.0
    return float(np.float32(1) / (np.float32(1) + np.float32(float32.exp(-value))))


OPERATOR = Operator(
    name="LOGISTIC",
    inputs=(Role.FEATURE,),
    function=float_function(logistic),
    rules=(*RULES, logistic_output_scale),
)
