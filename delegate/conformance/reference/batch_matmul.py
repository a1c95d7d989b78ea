"""BATCH_MATMUL."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from delegate.conformance.reference.arithmetic import Array, less_zero_point, requantize
from delegate.model.graph import Graph, Node
from delegate.ops.batch_matmul import BatchMatMulOptions


def reference(graph: Graph, node: Node, values: Mapping[int, Array]) -> Array:
    options = node.known_options(BatchMatMulOptions)
    first, second = (
        np.swapaxes(operand, -1, -2) if is_turned else operand
        for operand, is_turned in zip(
            (less_zero_point(graph, index, values).astype(np.float64) for index in node.inputs),
            (options.adj_x, options.adj_y),
            strict=True,
        )
    )
    acc = np.rint(first @ second).astype(np.int64)
    return requantize(graph, node, acc, in_float=True)
