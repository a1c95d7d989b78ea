"""SPACE_TO_DEPTH: element by element, as its definition says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array
from delegate.model.graph import Graph, Node
from delegate.ops.space_to_depth import SpaceToDepthOptions

SELECTS = True


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    options = node.known_options(SpaceToDepthOptions)
    x, block = values[node.inputs[0]], options.block
    parts = [x[:, row::block, column::block] for row in range(block) for column in range(block)]
    return np.concatenate(parts, axis=3)
