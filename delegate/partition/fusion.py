"""Which additions may run inside the convolution that produces one of their operands, by the graph
alone.

Legal: a CONV_2D whose only reader is the ADD, whose result is not an output of the partition, and
whose counterpart is another computed feature map of the same
shape. Whether the numbers allow it is decided
in ``lower``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from delegate.graph import Graph, Node
from delegate.partition.types import Partition


def choose_fusions(
    candidates: Mapping[int, tuple[int, ...]], refused: frozenset[int]
) -> Mapping[int, int]:
    """ADD node -> the first of its convolutions that is not ``refused`` and not taken."""
    chosen: dict[int, int] = {}
    for addition, convolutions in candidates.items():
        free = [c for c in convolutions if c not in refused and c not in chosen.values()]
        if free:
            chosen[addition] = free[0]
    return chosen


def additions_to_fuse(graph: Graph, partition: Partition) -> Mapping[int, tuple[int, ...]]:
    """ADD node -> the CONV_2D nodes that could take it in, the one computed last first."""
    readers: Counter[int] = Counter()
    producer: dict[int, Node] = {}
    position: dict[int, int] = {}
    for place, index in enumerate(partition.nodes):
        node = graph.node(index)
        position[index] = place
        readers.update(node.inputs)
        producer.update(dict.fromkeys(node.outputs, node))
    found: dict[int, tuple[int, ...]] = {}
    for index in partition.nodes:
        node = graph.node(index)
        if node.op != "ADD" or node.inputs[0] == node.inputs[1]:
            continue
        if any(graph.tensor(tensor).constant is not None for tensor in node.inputs):
            continue
        if len({graph.tensor(t).shape for t in (*node.inputs, *node.outputs)}) != 1:
            continue
        candidates = [
            producer[tensor].index
            for tensor in node.inputs
            if tensor in producer
            and producer[tensor].op == "CONV_2D"
            and readers[tensor] == 1
            and tensor not in partition.outputs
        ]
        if candidates:
            latest_first = sorted(candidates, key=lambda conv: position[conv], reverse=True)
            found[index] = tuple(latest_first)
    return found
