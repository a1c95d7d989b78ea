"""MAX_POOL_2D."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array
from delegate.conformance.reference.pools import pooled
from delegate.model.graph import Graph, Node

SELECTS = True


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    return pooled(node, values[node.inputs[0]], lambda window: np.max(window, axis=(1, 2)))
