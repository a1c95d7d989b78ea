"""DEPTH_TO_SPACE: block by block, as its definition says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array
from delegate.model.graph import Graph, Node
from delegate.ops.depth_to_space import DepthToSpaceOptions

SELECTS = True


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    options = node.known_options(DepthToSpaceOptions)
    x, block = values[node.inputs[0]], options.block
    result: Array = np.zeros(graph.tensor(node.outputs[0]).shape, x.dtype)
    parts = np.split(x, block**2, axis=3)
    for number, part in enumerate(parts):
        row, column = divmod(number, block)
        result[:, row::block, column::block] = part
    return result
