"""Refuses partitions whose buffers are larger than a program may have."""

from __future__ import annotations

import math
from collections.abc import Sequence

from delegate.chip.limits import MAX_BUFFER_BYTES, MAX_TOTAL_BYTES
from delegate.errors import LoweringError
from delegate.lower.lowered import BufferSpec
from delegate.lower.rules import BUFFERS_IN_RANGE
from delegate.model.graph import Graph, Node


def check_sizes(graph: Graph, nodes: Sequence[Node], buffers: Sequence[BufferSpec]) -> None:
    """Raises LoweringError for the node with the largest tensors if a buffer, or all of them
    together, are too large.

    A buffer is left for the commands.
    """
    total = sum(buffer.size_bytes for buffer in buffers)
    largest = max(buffers, key=lambda buffer: buffer.size_bytes)
    if largest.size_bytes <= MAX_BUFFER_BYTES and total <= MAX_TOTAL_BYTES - MAX_BUFFER_BYTES:
        return
    node = max(nodes, key=lambda node: _elements(graph, node))
    raise LoweringError(
        node.index,
        BUFFERS_IN_RANGE,
        f"{largest.buffer.name} needs {largest.size_bytes} bytes, all buffers {total}; a program "
        f"has up to {MAX_BUFFER_BYTES} and {MAX_TOTAL_BYTES - MAX_BUFFER_BYTES}",
    )


def _elements(graph: Graph, node: Node) -> int:
    tensors = [*node.inputs, *node.outputs]
    return sum(math.prod(graph.tensor(tensor).shape) for tensor in tensors if tensor >= 0)
