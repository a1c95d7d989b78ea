"""SUM over height and width of uint8."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import (
    Array,
    quantization,
    quantize_multiplier,
    scale_by,
)
from delegate.model.graph import DType, Graph, Node


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    features = values[node.inputs[0]].astype(np.int64)
    before, after = (quantization(graph.tensor(t)) for t in (node.inputs[0], node.outputs[0]))
    total = (features - before.zero_point).sum(axis=(1, 2))
    return scale_by(total, *quantize_multiplier(before.scale / after.scale)) + after.zero_point


def is_covered(graph: Graph, node: Node) -> bool:
    return graph.tensor(node.inputs[0]).dtype is DType.UINT8
