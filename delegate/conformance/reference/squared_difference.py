"""SQUARED_DIFFERENCE of feature maps and constants."""

from __future__ import annotations

from collections.abc import Mapping

from delegate.conformance.reference.arithmetic import (
    Array,
    less_zero_point,
    quantization,
    quantize_multiplier,
    scale_by,
)
from delegate.model.graph import Graph, Node

_SHIFT = 7


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    output = quantization(graph.tensor(node.outputs[0]))
    scales = [quantization(graph.tensor(index)).scale for index in node.inputs]
    twice = 2 * max(scales)
    first, second = (
        scale_by(less_zero_point(graph, index, values) << _SHIFT, *quantize_multiplier(s / twice))
        for index, s in zip(node.inputs, scales, strict=True)
    )
    factor = quantize_multiplier(twice**2 / ((1 << 2 * _SHIFT) * output.scale))
    return scale_by((first - second) ** 2, *factor) + output.zero_point
