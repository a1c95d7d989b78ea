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
