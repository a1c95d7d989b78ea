"""ADD of feature maps and constants."""

from __future__ import annotations

from collections.abc import Mapping

from delegate.conformance.reference.arithmetic import Array, sum_with_signs
from delegate.model.graph import Graph, Node

CARRIES_ERRORS = True


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    return sum_with_signs(graph, node, values, (1, 1))
