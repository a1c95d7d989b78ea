"""CONV_2D, not grouped."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array, operands, requantize
from delegate.conformance.reference.windows import taps
from delegate.model.graph import Graph, Node
from delegate.ops.conv_2d import ConvOptions


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    options = node.known_options(ConvOptions)
    features, weights = operands(graph, node, values)
    outputs, kh, kw, channels = weights.shape
    (rows, columns), tap = taps(options, features, kh, kw)
    acc = np.zeros((features.shape[0] * rows * columns, outputs))
    for y in range(kh):
        for x in range(kw):
            acc += tap(y, x).reshape(-1, channels) @ weights[:, y, x].T
    wide = np.rint(acc).astype(np.int64).reshape(features.shape[0], rows, columns, outputs)
    return requantize(graph, node, wide)


def is_covered(graph: Graph, node: Node) -> bool:
    """Grouped convolutions are left to the kernels."""
    return graph.tensor(node.inputs[0]).shape[3] == graph.tensor(node.inputs[1]).shape[3]
