"""RESHAPE: the same elements one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from delegate.conformance.reference.arithmetic import Array
from delegate.model.graph import Graph, Node


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    return values[node.inputs[0]].reshape(graph.tensor(node.outputs[0]).shape)
