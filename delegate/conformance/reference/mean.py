"""MEAN over height and width."""

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


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    features = values[node.inputs[0]].astype(np.int64)
    before, after = (quantization(graph.tensor(t)) for t in (node.inputs[0], node.outputs[0]))
    count = features.shape[1] * features.shape[2]
    total = (features - before.zero_point).sum(axis=(1, 2))
    mantissa, exponent = quantize_multiplier(before.scale / after.scale)
    bits = 0  # of the count, as the kernel shifts before it divides
    while count >> (bits + 1) and bits < min(32, 31 + exponent):
        bits += 1
    scaled = scale_by(total, (mantissa << bits) // count, exponent - bits)
    return scaled + after.zero_point
