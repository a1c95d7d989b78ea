"""MIRROR_PAD: the image's own pixels around it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array
from delegate.conformance.reference.pad import amounts_of
from delegate.model.graph import Graph, Node
from delegate.ops.mirror_pad import SYMMETRIC, MirrorPadOptions

SELECTS = True


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    amounts = graph.tensor(node.inputs[1]).constant
    options = node.known_options(MirrorPadOptions)
    assert amounts is not None
    image, sides = values[node.inputs[0]], amounts_of(amounts)
    if options.mode == SYMMETRIC:
        return np.pad(image, sides, mode="symmetric")
    return np.pad(image, sides, mode="reflect")
