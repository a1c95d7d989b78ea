"""PAD: zero points around the image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from delegate.conformance.reference.arithmetic import Array
from delegate.model.graph import Graph, Node

SELECTS = True


def amounts_of(constant: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """Elements before and behind, by dimension."""
    return [(int(before), int(behind)) for before, behind in constant.reshape(-1, 2)]


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    amounts = graph.tensor(node.inputs[1]).constant
    quantization = graph.tensor(node.outputs[0]).quantization
    assert amounts is not None
    assert quantization is not None
    fill = quantization.zero_point
    return np.pad(values[node.inputs[0]], amounts_of(amounts), constant_values=fill)
