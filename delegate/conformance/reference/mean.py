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
    total, mantissa, exponent = image_total(graph, node, values)
    _, height, width, _ = values[node.inputs[0]].shape
    count = height * width
    bits = 0  # of the count, as the kernel shifts before it divides
    while count >> (bits + 1) and bits < min(32, 31 + exponent):
        bits += 1
    scaled = scale_by(total, (mantissa << bits) // count, exponent - bits)
    return scaled + quantization(graph.tensor(node.outputs[0])).zero_point


def image_total(graph: Graph, node: Node, values: Mapping[int, Array]) -> tuple[Array, int, int]:
    """The sums of every image's channels, less the zero points, and the multiplier to the output's
    scale.
    """
    features = values[node.inputs[0]].astype(np.int64)
    before, after = (quantization(graph.tensor(t)) for t in (node.inputs[0], node.outputs[0]))
    total = (features - before.zero_point).sum(axis=(1, 2))
    return total, *quantize_multiplier(before.scale / after.scale)
