"""AVERAGE_POOL_2D: of raw values, halves away from zero."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array
from delegate.conformance.reference.pools import pooled
from delegate.model.graph import Graph, Node


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    def average(window: Array) -> Array:
        count = window.shape[1] * window.shape[2]
        total = window.sum(axis=(1, 2))
        return np.asarray(np.sign(total) * ((2 * np.abs(total) + count) // (2 * count)))

    return pooled(node, values[node.inputs[0]], average)
