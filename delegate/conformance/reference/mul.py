"""MUL of feature maps and constants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import (
    Array,
    less_zero_point,
    quantization,
    quantize_multiplier,
    scale_by,
)
from delegate.model.graph import Graph, Node


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    """The scales are multiplied and divided as float32."""
    first, second = (less_zero_point(graph, index, values) for index in node.inputs)
    a, b = (np.float32(quantization(graph.tensor(index)).scale) for index in node.inputs)
    output = quantization(graph.tensor(node.outputs[0]))
    multiplier = float(a * b / np.float32(output.scale))
    return scale_by(first * second, *quantize_multiplier(multiplier)) + output.zero_point
