"""ABS of int8, or of float32 between 8-bit tensors: a table; in fp16 a product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared import half_records
from delegate.ops.shared.common import int8_features
from delegate.ops.shared.fixed_point import multiplier_of, multiply
from delegate.ops.shared.functions import RULES, scales_of
from delegate.ops.shared.real_functions import in_float


def absolute(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    """The scales are divided as float64; equal ones need no multiplication."""
    (source, source_zero), (target, target_zero) = scales_of(graph, node)
    values: Values = np.abs(operands[0] - source_zero)
    if source != target:
        values = multiply(values, multiplier_of(source / target))
    return values + target_zero


OPERATOR = Operator(
    name="ABS",
    inputs=(Role.FEATURE,),
    function=absolute,
    rules=(*RULES, int8_features),
    half=half_records.magnitude,
    real_form=in_float(lambda _, given: np.abs(given[0])),
)
