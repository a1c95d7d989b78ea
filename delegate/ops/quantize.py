"""QUANTIZE to an 8-bit type: from another one a table, which the host's conversion looks up where
the input comes from the host; from float32 a part of that conversion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delegate.model.graph import DType, Graph, Node
from delegate.ops.operator import HostValues, Operator, Role, Side, Values
from delegate.ops.shared import common
from delegate.ops.shared.common import (
    TYPE_RANGES,
    affine_of,
    quantised_or_float32_input,
    quantised_output,
)
from delegate.ops.shared.fixed_point import UndefinedResultError, multiplier_of, multiply
from delegate.ops.shared.functions import same_shapes, scales_of
from delegate.ops.shared.real_functions import RealChain, chain_results


def quantize(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    """The scales are divided as float64. See ``real_functions`` for what begins before."""
    if isinstance(node.options, RealChain):
        return chain_results(graph, node, operands)
    (source, source_zero), (target, target_zero) = scales_of(graph, node)
    return multiply(operands[0] - source_zero, multiplier_of(source / target)) + target_zero


def _host_values(graph: Graph, node: Node, side: Side) -> HostValues | None:
    """Return the values at an output only where none changes but for the sign's representation:
    else the DPU's table, which may have other functions in it, costs less than the host's.
    """
    source, target = (graph.tensor(t) for t in (node.inputs[0], node.outputs[0]))
    if len(node.inputs) > 1:
        return None
    if source.dtype is DType.FLOAT32:
        return HostValues(affine=affine_of(target)) if side is Side.INPUT else None
    low, high = TYPE_RANGES[source.dtype]
    values = np.arange(low, high + 1)
    try:
        results = quantize(graph, node, [values])
    except UndefinedResultError:
        return None
    limited = np.clip(results, *TYPE_RANGES[target.dtype])
    found = (limited - target.dtype.element.offset).astype(np.int8)
    if np.array_equal(found, values - source.dtype.element.offset):
        return HostValues()
    if side is Side.OUTPUT:
        return None
    by_byte = np.empty(values.size, np.int8)
    by_byte[values % values.size] = found
    return HostValues(table=by_byte.tobytes())


OPERATOR = Operator(
    name="QUANTIZE",
    inputs=(Role.FEATURE,),
    function=quantize,
    host_values=_host_values,
    rules=(
        common.tensors_as_defined,
        common.nodes_in_order,
        quantised_or_float32_input,
        quantised_output,
        *common.BEHIND_TYPES,
        common.quantization_in_range,
        common.rank_in_range,
        same_shapes,
    ),
)
