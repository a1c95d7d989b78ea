"""TRANSPOSE: dimensions in another order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array
from delegate.model.graph import Graph, Node


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    axes = graph.tensor(node.inputs[1]).constant
    assert axes is not None
    return np.transpose(values[node.inputs[0]], [int(axis) for axis in axes])
