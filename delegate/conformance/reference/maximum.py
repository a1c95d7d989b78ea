"""MAXIMUM of raw values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array, raw
from delegate.model.graph import Graph, Node

SELECTS = True


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    first, second = (raw(graph, index, values) for index in node.inputs)
    return np.asarray(np.where(first > second, first, second))
