"""PADV2: a value around the image."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array
from delegate.conformance.reference.pad import amounts_of
from delegate.model.graph import Graph, Node

SELECTS = True


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    amounts, value = (graph.tensor(index).constant for index in node.inputs[1:])
    assert amounts is not None
    assert value is not None
    fill = int(value.reshape(()))
    return np.pad(values[node.inputs[0]], amounts_of(amounts), constant_values=fill)
