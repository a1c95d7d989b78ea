"""REDUCE_MAX over height and width."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array
from delegate.model.graph import Graph, Node

SELECTS = True


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    return np.asarray(values[node.inputs[0]].astype(np.int64).max(axis=(1, 2)))
