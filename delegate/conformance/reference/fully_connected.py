"""FULLY_CONNECTED."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array, operands, requantize, round_once
from delegate.model.graph import Graph, Node


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    features, weights = operands(graph, node, values)
    acc = features.reshape(-1, weights.shape[1]) @ weights.T
    if graph.rounds_once:
        return round_once(graph, node, acc)
    return requantize(graph, node, np.rint(acc).astype(np.int64), in_float=True)


def is_undefined(graph: Graph, node: Node) -> bool:
    """With scales per channel the kernel takes the output's first two dimensions for rows and
    outputs, whatever its rank, and leaves the rest unwritten.
    """
    quantization = graph.tensor(node.inputs[1]).quantization
    is_per_channel = quantization is not None and quantization.is_per_channel
    return is_per_channel and len(graph.tensor(node.outputs[0]).shape) > 2
