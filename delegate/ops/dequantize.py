"""DEQUANTIZE from an 8-bit type to float32: a part of the host's conversion of a result."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.ops.operator import HostValues, Lowering, Operator, Role, Shape, Side
from delegate.ops.shared import common
from delegate.ops.shared.functions import rank_in_range, same_shapes
from delegate.ops.shared.host_values import affine_of, float32_output, quantised_input


def _host_values(graph: Graph, node: Node, side: Side) -> HostValues | None:
    if side is Side.INPUT:
        return None
    return HostValues(affine=affine_of(graph.tensor(node.inputs[0])))


def _shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    return (graph.tensor(node.inputs[0]).shape,)


OPERATOR = Operator(
    name="DEQUANTIZE",
    inputs=(Role.FEATURE,),
    lowering=Lowering.HOST,
    host_values=_host_values,
    shapes=_shapes,
    rules=(
        common.tensors_as_defined,
        common.nodes_in_order,
        quantised_input,
        float32_output,
        *common.BEHIND_TYPES,
        *common.QUANTIZATION,
        rank_in_range,
        same_shapes,
    ),
)
