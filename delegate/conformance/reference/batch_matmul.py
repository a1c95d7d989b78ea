"""BATCH_MATMUL with a constant second operand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array, operands, requantize
from delegate.model.graph import Graph, Node
from delegate.ops.batch_matmul import BatchMatMulOptions


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    features, matrix = operands(graph, node, values)
    if node.known_options(BatchMatMulOptions).adj_y:
        matrix = np.swapaxes(matrix, -1, -2)
    acc = np.rint(features @ matrix).astype(np.int64)
    return requantize(graph, node, acc, in_float=True)
