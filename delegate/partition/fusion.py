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


def additions_to_fuse(graph: Graph, partition: Partition) -> Mapping[int, int]:
    """ADD node -> CONV_2D node to fold it into. Of two candidates, the one computed later."""
    readers: Counter[int] = Counter()
    producer: dict[int, Node] = {}
    position: dict[int, int] = {}
    for place, index in enumerate(partition.nodes):
        node = graph.node(index)
        position[index] = place
        readers.update(node.inputs)
        producer.update(dict.fromkeys(node.outputs, node))
    chosen: dict[int, int] = {}
    taken: set[int] = set()
    for index in partition.nodes:
        node = graph.node(index)
        if node.op != "ADD" or node.inputs[0] == node.inputs[1]:
            continue
        candidates = [
            producer[tensor].index
            for tensor in node.inputs
            if tensor in producer
            and producer[tensor].op == "CONV_2D"
            and readers[tensor] == 1
            and tensor not in partition.outputs
            and producer[tensor].index not in taken
        ]
        if any(graph.tensor(tensor).constant is not None for tensor in node.inputs):
            continue
        same_shape = len({graph.tensor(t).shape for t in (*node.inputs, *node.outputs)}) == 1
        if candidates and same_shape:
            best = max(candidates, key=lambda candidate: position[candidate])
            chosen[index] = best
            taken.add(best)
    return chosen
