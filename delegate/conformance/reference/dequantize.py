"""DEQUANTIZE to float32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array, quantization
from delegate.model.graph import Graph, Node


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    """The product of doubles, then rounded to float32."""
    source = quantization(graph.tensor(node.inputs[0]))
    steps = values[node.inputs[0]].astype(np.float64) - source.zero_point
    return np.asarray((steps * source.scale).astype(np.float32))
