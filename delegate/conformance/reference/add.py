"""ADD of feature maps and constants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import (
    Array,
    quantization,
    quantize_multiplier,
    scale_by,
)
from delegate.model.graph import Graph, Node

_LEFT_SHIFT = 20
"""The kernels scale both operands by 2^20 before they add them."""


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    quantizations = [quantization(graph.tensor(index)) for index in node.inputs]
    output = quantization(graph.tensor(node.outputs[0]))
    twice = 2 * max(q.scale for q in quantizations)
    total: Array = np.zeros((), np.int64)
    for index, q in zip(node.inputs, quantizations, strict=True):
        array = values.get(index)
        if array is None:
            array = graph.tensor(index).constant
            assert array is not None
        shifted = (array.astype(np.int64) - q.zero_point) << _LEFT_SHIFT
        total = total + scale_by(shifted, *quantize_multiplier(q.scale / twice))
    scaled = scale_by(total, *quantize_multiplier(twice / ((1 << _LEFT_SHIFT) * output.scale)))
    return scaled + output.zero_point
