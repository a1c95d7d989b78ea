"""LOG of int8, or of float32 between 8-bit tensors: a table. Of int8 what has no logarithm gives
the least result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared.common import TYPE_RANGES, int8_features
from delegate.ops.shared.fixed_point import float_table
from delegate.ops.shared.functions import RULES, each, log, scales_of
from delegate.ops.shared.real_functions import in_float


def _results(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    source, target = scales_of(graph, node)
    values, zero_point = operands[0], source[1]
    least, _ = TYPE_RANGES[graph.tensor(node.outputs[0]).dtype]
    known = float_table(np.maximum(values, zero_point + 1), source, target, log)
    return np.where(values > zero_point, known, least)


OPERATOR = Operator(
    name="LOG",
    inputs=(Role.FEATURE,),
    function=_results,
    rules=(*RULES, int8_features),
    real_form=in_float(lambda _, given: each(log, given[0])),
)
