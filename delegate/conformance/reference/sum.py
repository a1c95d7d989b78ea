"""SUM over height and width of uint8."""

from __future__ import annotations

from collections.abc import Mapping

from delegate.conformance.reference.arithmetic import Array, quantization, scale_by
from delegate.conformance.reference.mean import image_total
from delegate.model.graph import DType, Graph, Node


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    scaled = scale_by(*image_total(graph, node, values))
    return scaled + quantization(graph.tensor(node.outputs[0])).zero_point


def is_covered(graph: Graph, node: Node) -> bool:
    return graph.tensor(node.inputs[0]).dtype is DType.UINT8
