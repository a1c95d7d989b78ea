"""DEQUANTIZE from an 8-bit type to float32: a part of the host's conversion of a result. Of float16
constants, the weights of float models: a constant, see ``Graph.folded``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Graph, Node
from delegate.ops.operator import HostValues, Operator, Role, Side
from delegate.ops.shared import common
from delegate.ops.shared.common import affine_of, float32_output, quantised_input
from delegate.ops.shared.functions import same_shapes


def _host_values(graph: Graph, node: Node, side: Side) -> HostValues | None:
    if side is Side.INPUT:
        return None
    return HostValues(affine=affine_of(graph.tensor(node.inputs[0])))


def _folds(graph: Graph, node: Node) -> npt.NDArray[np.generic] | None:
    source = graph.tensor(node.inputs[0])
    is_half = source.dtype is DType.FLOAT16 and not source.is_sparse
    return source.constant if is_half else None


OPERATOR = Operator(
    name="DEQUANTIZE",
    inputs=(Role.FEATURE,),
    host_values=_host_values,
    shapes=common.same_shape,
    folds=_folds,
    folds_once=True,
    rules=(
        common.tensors_as_defined,
        common.nodes_in_order,
        quantised_input,
        float32_output,
        *common.BEHIND_TYPES,
        common.quantization_in_range,
        common.rank_in_range,
        same_shapes,
    ),
)
